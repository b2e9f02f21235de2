"""Which of many kernels gets the next measurement."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, replace

import pytest
import spaces

from solkit.core import Configuration, Space
from solkit.datasets.identifiers import problem_id
from solkit.measure.benches import RecordedBench
from solkit.measure.benches.recorded import Cost
from solkit.tuner.bench_driver import drive_bench
from solkit.tuner.early_stopping import TaskSettings
from solkit.tuner.portfolio import (
    PortfolioSettings,
    choose_round_robin,
    choose_task,
    portfolio_choice,
)
from solkit.tuner.tuning_problem import TuningProblem

A_SECOND = Cost(0.0, 1.0)


@dataclass
class Kernel:
    """What the policy sees of a task."""

    weight: float = 1.0
    measured: int = 9
    pending: int = 0
    cost: Cost | None = A_SECOND
    saving_ms: float = 1.0

    def expected_saving_ms(self):
        return self.saving_ms


GREEDY = PortfolioSettings(fair=3, turn=0)


def picked(*kernels, settings=GREEDY):
    return kernels.index(choose_task(kernels, settings))


@pytest.mark.parametrize(
    "better",
    [
        Kernel(weight=2.0),
        Kernel(saving_ms=2.0),
        Kernel(cost=Cost(0.0, 0.5)),
    ],
)
def test_more_calls_larger_savings_and_cheaper_measurements_come_first(better):
    assert picked(Kernel(), better, Kernel()) == 1


def test_compiling_costs_only_if_the_gpu_waits_for_it():
    hidden = Kernel(cost=Cost(compile_s=7.9, gpu_s=1.0))
    waited_for = Kernel(cost=Cost(compile_s=16.0, gpu_s=1.0))
    assert picked(waited_for, hidden, settings=replace(GREEDY, cores=8)) == 1
    assert picked(hidden, Kernel(), settings=replace(GREEDY, cores=8)) == 0


def test_what_is_under_way_counts_as_half_as_promising():
    assert picked(Kernel(saving_ms=1.9, pending=1), Kernel()) == 1
    assert picked(Kernel(saving_ms=2.1, pending=1), Kernel()) == 0


def test_each_has_its_fair_minimum_first_in_the_given_order():
    late = Kernel(measured=1, pending=1, saving_ms=math.nan)
    assert picked(Kernel(saving_ms=9.0), late) == 1
    assert picked(Kernel(measured=0), Kernel(measured=0)) == 0
    assert picked(Kernel(), replace(late, pending=2)) == 0


def test_a_turn_goes_to_the_one_with_fewest():
    rich, poor = Kernel(measured=15, saving_ms=9.0), Kernel(measured=5)
    assert picked(rich, poor, settings=replace(GREEDY, turn=10)) == 1
    assert picked(replace(rich, measured=16), poor, settings=replace(GREEDY, turn=10)) == 0


def test_with_nothing_to_expect_the_fewest_measured_goes_on():
    assert picked(Kernel(saving_ms=0.0), Kernel(measured=4, saving_ms=math.nan)) == 1


def test_an_unknown_cost_counts_as_the_usual_one():
    assert picked(Kernel(cost=Cost(0.0, 2.0)), Kernel(cost=None, saving_ms=1.1)) == 1


# ------------------------------------------------------------------------------------ a simulation


def recorded(calls):
    """A bench and tasks: three kernels of one space, each with its calls."""
    rows, tasks = [], []
    for number, weight in enumerate(calls):
        shape = {"M": 64 << number, "N": 32}
        own = {"shape": shape, "problem_id": problem_id("softmax", shape)}
        rows += [replace(row, **own) for row in spaces.recording(seed=number, repeats=1)]
        default = Configuration("softmax/rows", "kernel", shape, spaces.DEFAULT)
        settings = TaskSettings(stop_at=9.0, least_gain=0.0)
        space = Space.of_points(spaces.points())
        tasks.append(TuningProblem(f"{number}", default, space, weight=weight, settings=settings))
    return RecordedBench(rows, cores=4), tasks


def saved(choose, calls, budget_s):
    bench, tasks = recorded(calls)
    drive_bench(bench, tasks, budget_s, choose)
    return sum(t.weight * (t.incumbent.time_ms - t.best.time_ms) for t in tasks), tasks


def test_it_saves_more_than_taking_turns():
    calls, budget_s = [1.0, 1000.0, 1.0, 1.0], 16.0
    ours, tasks = saved(portfolio_choice(), calls, budget_s)
    turns, _ = saved(choose_round_robin, calls, budget_s)
    assert ours > 1.05 * turns
    counts = Counter({task.name: task.measured for task in tasks})
    assert counts.most_common(1)[0][0] == "1"
    assert min(counts.values()) >= 3
