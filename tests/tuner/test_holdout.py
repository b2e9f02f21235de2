"""A winner at shapes that it was not tuned for."""

from __future__ import annotations

import pytest

from solkit.core import Configuration, Difference, Final, Ratio
from solkit.measure.timing.comparison_statistics import difference
from solkit.tuner.holdout import Winner, nearest_shape, pass_gate, pass_gates

BASE = Configuration("k.py", "kernel", {"M": 64}, {"BLOCK": 16})
RIVAL = Configuration("k.py", "kernel", {"M": 64}, {"BLOCK": 32})


def held(difference, value=None, strict=True):
    """The gate's answer to one comparison, and what was compared."""
    seen = []

    def judge(base, rival):
        seen.append((base, rival))
        ratio = None if value is None else Ratio(value, value / 1.01, value * 1.01, 0.001, 9)
        return Final(rival.params, difference, ratio, "turns", ("evidence.",))

    (result,) = pass_gate(BASE, RIVAL, [({"M": 7}, strict)], judge)
    assert [(b.shape, b.params, r.shape, r.params) for b, r in seen] == [
        ({"M": 7}, BASE.params, {"M": 7}, RIVAL.params)
    ]
    return result


@pytest.mark.parametrize(
    ("difference", "value", "passed"),
    [
        (Difference.FASTER, 0.8, True),
        (Difference.NOT_SHOWN, 1.005, True),
        (Difference.NOT_SHOWN, 1.2, False),  # few samples: it may well be slower
        (Difference.SLOWER, 1.002, False),
        (Difference.UNSTABLE, 0.9, False),
        (Difference.NOT_COMPARED, None, False),
    ],
)
def test_a_winner_must_be_correct_and_not_slower(difference, value, passed):
    result = held(difference, value)
    assert (result.passed, result.difference, result.shape) == (passed, difference, {"M": 7})


def in_sets(*ratios, how="guarded", strict=True):
    """The gate's answer where each set of processes shows another ratio; and how many there were.

    ``None``: the winner is wrong. The interval is 1 % wide to each side.
    """
    rest = list(ratios)

    def judge(_base, rival):
        if (value := rest.pop(0)) is None:
            return Final(rival.params, Difference.NOT_COMPARED, None, how, ("It is wrong.",))
        ratio = Ratio(value, value / 1.01, value * 1.01, 0.001, 60)
        return Final(rival.params, difference(ratio), ratio, how)

    (result,) = pass_gate(BASE, RIVAL, [({"M": 7}, strict)], judge)
    return result, len(ratios) - len(rest)


@pytest.mark.parametrize(
    ("ratios", "passed", "sets"),
    [
        ([1.0, 9.0, 9.0], True, 1),  # nobody asks again
        ([1.08, 1.0, 0.99], True, 3),  # what one pair of processes happens to do
        ([1.08, 0.99, 1.03], False, 3),
        ([1.03, 1.02, 1.0], False, 2),  # slower in each
        ([2.0, 1.0, 1.0], False, 1),  # far slower
        ([1.08, None, 1.0], False, 2),
        ([None, 1.0, 1.0], False, 1),
    ],
)
def test_most_of_three_sets_of_processes_must_say_that_a_winner_is_slower(ratios, passed, sets):
    result, count = in_sets(*ratios)
    assert (result.passed, count) == (passed, sets)


def test_an_answer_says_how_many_sets_say_slower():
    result, _ = in_sets(1.08, 1.0, 0.99)
    assert result.why == (
        "It takes 1.000 times what is in use takes. Of 3 sets of processes 1 say slower."
    )
    assert in_sets(1.08, 1.0, None)[0].why == "It is wrong."


def test_what_would_be_looked_up_again_or_need_not_be_fast_is_asked_once():
    assert in_sets(1.08, 1.0, 1.0, how="recorded")[1] == 1
    assert in_sets(1.08, 1.0, 1.0, strict=False)[1] == 1


def test_where_another_winner_is_nearer_it_need_only_be_correct():
    assert held(Difference.SLOWER, 2.0, strict=False).passed
    wrong = held(Difference.NOT_COMPARED, strict=False)
    assert (wrong.passed, wrong.why) == (False, "evidence.")


def test_the_nearest_shape_is_so_in_doublings():
    shapes = [{"M": 16, "dtype": "bf16"}, {"M": 1024, "dtype": "bf16"}]
    assert nearest_shape({"M": 100, "dtype": "bf16"}, shapes) == 0  # 2.6 doublings against 3.4
    assert nearest_shape({"M": 200, "dtype": "bf16"}, shapes) == 1
    other = [{"M": 16, "dtype": "bf16"}, {"M": 16, "dtype": "fp8"}]
    assert nearest_shape({"M": 16, "dtype": "fp8"}, other) == 1


def test_several_winners_are_compared_at_once():
    requests = []

    def judge(pairs):
        requests.append([(base.shape["M"], rival.params["BLOCK"]) for base, rival in pairs])
        slow = [rival.shape["M"] == 9 for _, rival in pairs]
        return [
            Final(
                rival.params, Difference.FASTER, Ratio(1 + item, 1 + item, 1 + item, 0.001, 9), ""
            )
            for item, (_, rival) in zip(slow, pairs, strict=True)
        ]

    other = Configuration("k.py", "kernel", {"M": 64}, {"BLOCK": 64})
    winners = [
        Winner(BASE, RIVAL, [({"M": 7}, True), ({"M": 9}, True)]),
        Winner(BASE, other, []),
        Winner(BASE, other, [({"M": 8}, True)]),
    ]
    results = pass_gates(winners, judge)
    assert requests == [[(7, 32), (9, 32), (8, 64)]]
    assert [[(e.shape["M"], e.passed) for e in result] for result in results] == [
        [(7, True), (9, False)],
        [],
        [(8, True)],
    ]


def test_nothing_is_compared_where_a_winner_launches_what_is_in_use():
    requests = []

    def judge(pairs):
        requests.extend(base.shape["M"] for base, _ in pairs)
        slow = Ratio(2.0, 1.9, 2.1, 0.001, 9)
        return [Final(rival.params, Difference.SLOWER, slow, "") for _, rival in pairs]

    winner = Winner(BASE, RIVAL, [({"M": 7}, True), ({"M": 9}, True), ({"M": 8}, True)])
    (held,) = pass_gates([winner], judge, lambda base, rival: base.shape == rival.shape == {"M": 9})
    assert requests == [7, 8]
    assert [(e.shape["M"], e.passed, e.ratio is None) for e in held] == [
        (7, False, False),
        (9, True, True),
        (8, False, False),
    ]
