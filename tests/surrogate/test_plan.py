"""Plans, by hand."""

from __future__ import annotations

import numpy as np
import pytest

from solkit.surrogate.plan import Action, plan_actions

NAN = np.nan


def planned(times, budget, low=None, fails=(), kept=(), enough=None):
    times = np.array(times, float)
    low = np.full(len(times), NAN) if low is None else np.array(low, float)
    failing = np.isin(np.arange(len(times)), fails)
    order, results = plan_actions(times, low, failing, list(kept), budget, enough)
    return order.tolist(), [action for action, _ in results], [reason for _, reason in results]


def test_the_fastest_are_measured_and_one_is_explored():
    low = [0.9, 1.7, 0.5, 2.0, 0.4]
    order, result, reasons = planned([1.0, 2.0, 3.0, 2.5, 4.0], 4, low)
    assert order == [0, 1, 3, 2, 4]
    assert [result[place] for place in order] == [
        *(Action.MEASURE,) * 3,
        Action.SKIP,
        Action.EXPLORE,  # 0.4 is the lowest that any may reach
    ]
    assert "60%" in reasons[4]
    assert "3.0 times" in reasons[2]


def test_the_incumbent_is_kept_however_slow():
    _, result, reasons = planned([1.0, 2.0, 9.0], 1, kept=[2])
    assert result == [Action.SKIP, Action.SKIP, Action.MEASURE]
    assert "what you have" in reasons[2]


def test_what_cannot_run_is_last_and_skipped_even_if_kept():
    order, result, _ = planned([1.0, 2.0, NAN], 3, fails=[0], kept=[0])
    assert order == [1, 2, 0]
    assert result == [Action.SKIP, Action.MEASURE, Action.MEASURE]


def test_what_will_hardly_run_comes_after_what_is_a_little_slower():
    times = np.array([1.0, 2.0, 3.0, 30.0])
    p_fail = np.array([0.9, 0.0, 0.0, 0.0])  # ten tries until one runs
    order, results = plan_actions(times, times / 2, p_fail, [], 2)
    assert order.tolist() == [1, 2, 0, 3]
    assert [action for action, _ in results] == [
        *(Action.SKIP, Action.MEASURE, Action.MEASURE, Action.SKIP)
    ]
    _, results = plan_actions(times, times / 2, p_fail, [0], 2)
    assert results[0][0] is Action.MEASURE  # it is in use: perhaps it runs after all


def test_a_budget_is_spent_whole_and_what_is_beyond_enough_explores():
    _, result, _ = planned(range(1, 21), 10, low=range(1, 21), enough=3)
    assert result[:3] == [Action.MEASURE] * 3
    assert result.count(Action.MEASURE) == 3
    assert result.count(Action.EXPLORE) == 7


@pytest.mark.parametrize("enough", [None, 1, 4, 9, 10, 15])
@pytest.mark.parametrize("kept", [(), (0,), (2,), (19,)])
def test_a_budget_of_ten_measures_ten_wherever_the_incumbent_stands(kept, enough):
    order, result, _ = planned(range(1, 21), 10, low=range(1, 21), kept=kept, enough=enough)
    assert 20 - result.count(Action.SKIP) == 10
    assert all(result[place] is Action.MEASURE for place in kept)
    if enough is not None and enough < 10:  # there is room for the incumbent beside them
        assert [result[place] for place in order[:enough]] == [Action.MEASURE] * enough


def test_a_twin_waits_for_others_that_are_as_good():
    order, result, _ = planned([1.0, 1.0, 1.005, 1.5], 2, low=[0.9, 0.9, 0.9, 1.4], kept=[])
    assert order == [0, 2, 1, 3]
    assert result[0] is Action.MEASURE


def test_unknown_times_come_after_known_ones():
    order, result, reasons = planned([NAN, 5.0], 1)
    assert order == [1, 0]
    assert result[0] is Action.SKIP
    assert "Nothing is known" in reasons[0]
