"""A task alone: asked and told by hand, without a bench."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import spaces

from solkit.core import Configuration, Space, Stopped, Verdict
from solkit.tuner.early_stopping import TaskSettings
from solkit.tuner.tuning_problem import DEFAULT, SEARCH, TuningProblem

CHANCE = np.random.default_rng(0)
ON = Configuration("softmax/rows", "kernel", spaces.SHAPE, spaces.DEFAULT)


def problem(points=None, default=spaces.DEFAULT, **fields):
    settings = TaskSettings(**{"stop_at": 0.95, **fields.pop("settings", {})})
    space = Space.of_points(points or spaces.points())
    return TuningProblem("it", replace(ON, params=default), space, settings=settings, **fields)


SEQUENCE = iter(range(10_000))


def answered(task, number, time_of=spaces.true_ms):
    """Ask for some, tell what they take; gives what was asked."""
    points = task.ask(number)
    for point in points:
        row = spaces.row(next(SEQUENCE), point.params, time_of(point.params), CHANCE)
        task.tell(point, spaces.failed(row) if spaces.fails(point.params) else row, 1.0)
    return points


def test_the_default_is_asked_for_first():
    first, *others = problem().ask(5)
    assert (first.params, first.chosen_by) == (spaces.DEFAULT, DEFAULT)
    assert len(others) == 4
    assert {item.chosen_by for item in others} == {SEARCH}


def test_a_default_outside_the_space_is_asked_for_too_and_only_once():
    odd = {**spaces.DEFAULT, "BLOCK": 48}
    task = problem(default=odd)
    assert task.ask(1)[0].params == odd
    assert all(point.params != odd for point in task.ask(59))
    task.tell(replace(ON, params=odd), spaces.row(1, odd, 2.0, CHANCE))
    assert task.incumbent.time_ms == pytest.approx(2.0, rel=0.01)


def test_no_point_is_asked_for_twice_and_then_it_is_exhausted():
    task = problem(settings={"least_gain": 0.0})
    requests = [item for _ in range(12) for item in answered(task, 5)]
    assert len({tuple(request.params.items()) for request in requests}) == 60
    assert task.stopped is Stopped.EXHAUSTED
    assert (task.measured, task.failed) == (60, sum(map(spaces.fails, spaces.points())))
    assert task.best.configuration.params == spaces.BEST


def test_it_is_not_over_while_the_last_outcomes_are_awaited():
    task = problem([spaces.DEFAULT, spaces.BEST])
    default, best = task.ask(5)
    task.tell(default, spaces.row(0, spaces.DEFAULT, 3.0, CHANCE))
    assert task.stopped is None
    task.tell(best, spaces.row(1, spaces.BEST, 1.0, CHANCE))
    assert task.stopped is Stopped.EXHAUSTED


@pytest.mark.parametrize(("sol_ms", "over"), [(0.98, True), (0.9, False)])
def test_it_stops_near_the_speed_of_light(sol_ms, over):
    task = problem([spaces.DEFAULT, spaces.BEST, {**spaces.BEST, "num_stages": 2}], sol_ms=sol_ms)
    task.ask(2)
    for number, (params, time_ms) in enumerate([(spaces.DEFAULT, 3.0), (spaces.BEST, 1.0)]):
        task.tell(replace(ON, params=params), spaces.row(number, params, time_ms, CHANCE))
    assert (task.stopped is Stopped.SPEED_OF_LIGHT) is over


def test_one_that_is_given_up_stops_and_still_hears_what_is_pending():
    task = problem([spaces.DEFAULT, spaces.BEST, {**spaces.BEST, "num_stages": 2}], sol_ms=0.5)
    default, best = task.ask(2)
    assert math.isnan(task.possible_saving_ms())
    task.give_up()
    assert task.stopped is None  # the default is owed
    task.tell(default, spaces.row(0, spaces.DEFAULT, 3.0, CHANCE))
    assert task.stopped is Stopped.SMALL_SHARE
    task.tell(best, spaces.row(1, spaces.BEST, 1.0, CHANCE))
    assert task.possible_saving_ms() == pytest.approx(task.weight * 0.5, rel=0.05)


def test_it_never_stops_before_the_default_is_measured():
    task = problem(sol_ms=1.0)
    task.ask(2)
    task.tell(replace(ON, params=spaces.BEST), spaces.row(1, spaces.BEST, 1.0, CHANCE))
    assert task.owes_default
    assert task.stopped is None
    task.tell(ON, spaces.row(2, spaces.DEFAULT, 3.0, CHANCE))
    assert task.stopped is Stopped.SPEED_OF_LIGHT


def test_it_stops_when_little_is_to_be_gained():
    settings = {"least_gain": 0.999, "better_chance": 1.1, "patience": 10, "calm": 3}
    task = problem(settings=settings)
    answered(task, 11)
    assert task.stopped is None
    answered(task, 1)
    assert task.stopped is Stopped.EXPECTED_GAIN


def test_it_goes_on_while_something_clearly_faster_may_be_left():
    settings = {"least_gain": 0.999, "better_chance": 0.0, "patience": 10, "calm": 3}
    task = problem(settings=settings)
    answered(task, 30)
    assert task.stopped is None


def test_it_stops_with_the_best_before_all_is_measured():
    task = problem()
    while task.stopped is None:
        answered(task, 1)
    assert task.stopped is Stopped.EXPECTED_GAIN
    assert task.better_chance() < 0.1
    assert task.best.time_ms == pytest.approx(1.0, rel=0.02)


def test_an_outcome_that_was_told_before_counts_once():
    task = problem()
    row = spaces.row(1, spaces.BEST, 1.0, CHANCE)
    for result in (row, row, replace(row, run_id="another file", sequence=9)):
        task.tell(replace(ON, params=spaces.BEST), result)
    assert task.best.samples == 9
    again = spaces.row(2, spaces.BEST, 1.0, CHANCE)
    task.tell(replace(ON, params=spaces.BEST), again)
    assert task.best.samples == 18
    assert task.measured == 1
    assert task.best.time_ms == np.median([*row.samples_ms, *again.samples_ms])


def test_one_that_was_ever_wrong_is_no_winner():
    task = problem()
    good = spaces.row(1, spaces.BEST, 1.0, CHANCE)
    bad = spaces.failed(spaces.row(2, spaces.BEST, 1.0, CHANCE), Verdict.WRONG)
    for row in (good, bad):
        task.tell(replace(ON, params=spaces.BEST), row)
    assert task.best is None
    assert task.failed == 1


def test_one_that_could_not_be_measured_is_asked_for_once_more():
    task = problem()
    (default,) = task.ask(1)
    lost = spaces.failed(spaces.row(1, spaces.DEFAULT, 1.0, CHANCE), Verdict.NOT_MEASURED)
    task.tell(default, lost)
    assert task.measured == 0
    assert task.ask(1)[0] == default
    task.tell(default, replace(lost, created=spaces.BEGUN))
    assert (task.measured, task.failed) == (1, 1)
    assert task.ask(1)[0] != default


def test_nothing_that_can_be_measured_ends_it():
    task = problem()
    number = iter(range(100))
    while task.stopped is None:
        for point in task.ask(4):
            row = spaces.row(next(number), point.params, 1.0, CHANCE)
            task.tell(point, spaces.failed(row, Verdict.NOT_MEASURED))
    assert task.stopped is Stopped.NOTHING_RUNS
    assert task.measured < 16


def test_what_the_bench_dropped_is_asked_for_again():
    task = problem()
    points = task.ask(4)
    row = spaces.row(1, points[0].params, 1.0, CHANCE)
    task.tell(points[0], row)
    task.withdraw()
    assert task.ask(3) == points[1:]


def test_contenders_are_those_whose_interval_meets_the_bests():
    task = problem()
    times = {32: 1.0, 64: 1.002, 128: 1.2}
    for number, (block, time_ms) in enumerate(times.items()):
        params = {**spaces.BEST, "BLOCK": block}
        row = spaces.row(number, params, time_ms, np.random.default_rng(number))
        task.tell(replace(ON, params=params), row)
    assert {contender.configuration.params["BLOCK"] for contender in task.contenders()} == {32, 64}


def test_the_saving_is_in_ms_a_call():
    task = problem()
    assert np.isnan(task.expected_saving_ms())
    answered(task, 12)
    saving_ms = task.expected_saving_ms()
    assert 0 < saving_ms < task.best.time_ms
    assert saving_ms == task.best.time_ms * task.expected_gain()
