"""Choice among configurations that are equally fast."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import spaces

from solkit.core import Configuration, LiveLaunch, Space, canonical
from solkit.tuner.head_to_head import judge_best
from solkit.tuner.tie_breaking import are_times_alike, choose_among_equals
from solkit.tuner.tuning_problem import TrialSummary, TuningProblem

CHANCE = np.random.default_rng(0)
ON = Configuration("softmax/rows", "kernel", spaces.SHAPE, spaces.DEFAULT)
SMALL, LARGE = dict(spaces.BEST), {**spaces.BEST, "BLOCK": 256}


def launch(registers=32, shared_bytes=0, spills=0, num_warps=4):
    sizes = {"registers": registers, "shared_bytes": shared_bytes, "spills": spills}
    return LiveLaunch("k", (1, 1, 1), num_warps=num_warps, **sizes)


def trial(params, *launches, time_ms=1.0):
    row = spaces.row(0, params, time_ms, CHANCE, live_launches=launches)
    return TrialSummary(replace(ON, params=params), [row])


@pytest.mark.parametrize(
    ("small", "large"),
    [
        ({"spills": 1}, {"shared_bytes": 9, "registers": 99}),
        ({"shared_bytes": 2}, {"shared_bytes": 1, "registers": 99}),
        ({"registers": 33}, {"registers": 32}),
        ({"num_warps": 8}, {"num_warps": 4}),
    ],
)
def test_fewest_resources_come_first_spills_before_shared_memory_before_registers(small, large):
    equals = [trial(SMALL, launch(**small)), trial(LARGE, launch(**large))]
    assert choose_among_equals(equals) is equals[1]


def test_resources_that_one_lacks_decide_nothing():
    equals = [trial(SMALL, launch(spills=9)), trial(LARGE)]
    assert choose_among_equals(equals) is equals[0]  # its block is smaller


def test_the_nearest_shape_at_which_both_are_known_decides_next():
    equals = [trial(SMALL), trial(LARGE)]
    names = [canonical(SMALL), canonical(LARGE)]
    near, far = {names[0]: 1.0}, dict(zip(names, (2.0, 1.0)))
    assert choose_among_equals(equals, [near, far]) is equals[1]
    assert choose_among_equals(equals, [dict(zip(names, (1.0, 2.0))), far]) is equals[0]


class Belief:
    def log2_ms(self, points):
        return np.array([-float(p["BLOCK"]) for p in points]), np.zeros(len(points))

    def fails(self, points):
        return np.zeros(len(points))


def test_then_what_was_believed_and_then_the_smallest_values():
    equals = [trial(SMALL), trial(LARGE)]
    assert choose_among_equals(equals, (), Belief()) is equals[1]
    assert choose_among_equals(equals[::-1]) is equals[0]


@pytest.mark.parametrize(
    ("time_ms", "best_ms", "alike"),
    [(1.0069, 1.0, True), (1.0071, 1.0, False), (0.00509, 0.005, True), (0.00511, 0.005, False)],
)
def test_times_are_alike_within_what_a_kernel_differs_from_itself(time_ms, best_ms, alike):
    assert are_times_alike(time_ms, best_ms) is alike


def measured_task(seed):
    """The best and its twin take the same time; noise decides which looks faster."""
    task = TuningProblem("it", ON, Space.of_points(spaces.points()))
    chance = np.random.default_rng(seed)
    for number, (params, time_ms) in enumerate(
        [(spaces.DEFAULT, 3.0), (SMALL, 1.0), (LARGE, 1.0), ({**SMALL, "num_warps": 1}, 1.3)]
    ):
        task.tell(replace(ON, params=params), spaces.row(number, params, time_ms, chance))
    return task


def test_two_runs_choose_the_same_though_another_looks_faster():
    tasks = [measured_task(seed) for seed in range(20)]
    fastest = {task.best.configuration.params["BLOCK"] for task in tasks}
    assert fastest == {128, 256}
    assert {task.choice.configuration.params["BLOCK"] for task in tasks} == {128}
    assert all(len(task.equals()) == 2 for task in tasks)


def test_the_choice_meets_the_one_in_use_in_the_final():
    task = next(t for t in map(measured_task, range(20)) if t.best is not t.choice)
    met = []
    judge_best(task, lambda base, rival: met.append((base.params, rival.params)))
    assert met == [(spaces.DEFAULT, SMALL)]


def test_the_one_in_use_stays_if_it_is_the_fastest():
    task = TuningProblem("it", replace(ON, params=LARGE), Space.of_points(spaces.points()))
    for number, (params, time_ms) in enumerate([(LARGE, 1.0), (SMALL, 1.001)]):
        row = replace(spaces.row(number, params, 1.0, CHANCE), time_ms=time_ms)
        task.tell(replace(ON, params=params), row)
    assert task.choice is task.incumbent
