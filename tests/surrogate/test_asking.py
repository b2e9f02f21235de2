from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import pytest

from solkit.core import Configuration, Depth, Facts, KernelAnalysis, Launch
from solkit.errors import InputError
from solkit.roofline import devices
from solkit.surrogate.asking import AskTell
from solkit.surrogate.features import Problem
from solkit.surrogate.model import Surrogate
from solkit.surrogate.plan import Action, Forecast, Plan, Ranked
from solkit.surrogate.ranking import Pool
from solkit.surrogate.table import Entry
from solkit.surrogate.trees import Forecasts

H100 = devices.find("h100-sxm")


@dataclass(frozen=True)
class Learner(Surrogate):
    """Expects a launch to take log2(blocks) times the mean of the told ratios to that."""

    ratio: float = 1.0

    def update(self, table, depth, stale=0.0):  # noqa: ARG002 - the surrogate's
        told = ~np.isnan(table.time_ms)
        if not told.any():
            return self
        ratio = float(np.mean(table.time_ms[told] / table.column("geometry.blocks")[told]))
        return Learner(self.card, ratio=ratio)

    def forecast(self, table, depth):  # noqa: ARG002 - the surrogate's
        times = self.ratio * table.column("geometry.blocks")
        # the more blocks, the wider: the slowest have the lowest low ends
        return Forecasts(times, 1 / times, 9 * times, times, times < 0)


def configuration(blocks):
    return Configuration("k.py", "run", {}, {"BLOCKS": blocks})


def entry(blocks, problem):
    launch = Launch("k", (blocks, 1, 1), 4, 3)
    kernel = KernelAnalysis(Facts(launch, Depth.CAPTURED))
    return Entry(problem, H100, [kernel], {"BLOCKS": blocks}, {})


def pool(blocks=(4, 8, 16, 32, 64, 128), planned=2, failing=()):
    """Candidates by number of blocks: the first are planned, some are believed to fail."""
    problem = Problem(1.0, "dram", {}, 1e6, 1e6)
    ranked = []
    for place, each in enumerate(blocks):
        fails = each in failing
        action = Action.MEASURE if place < planned and not fails else Action.SKIP
        forecast = Forecast(None if fails else math.log2(each), None, None, float(fails), False)
        ranked.append(Ranked(configuration(each), Depth.CAPTURED, forecast, action, "Because."))
    entries = [None if each in failing else entry(each, problem) for each in blocks]
    return Pool(Plan({}, tuple(ranked), 1.0), lambda: entries)


def blocks_of(answers):
    return [each.configuration.params["BLOCKS"] for each in answers]


def drained(asked, times=None):
    found = []
    while answers := asked.ask():
        found += blocks_of(answers)
        asked.tell(answers[0].configuration, times[found[-1]] if times else 1.0)
    return found


def test_the_plan_comes_first_then_the_lowest_forecasts_and_nothing_twice():
    asked = AskTell(pool(), Learner({}), seed=3)
    assert blocks_of(asked.ask(2)) == [4, 8]
    assert not asked.exhausted
    rest = blocks_of(asked.ask(9))
    assert sorted(rest) == [16, 32, 64, 128]
    assert asked.exhausted
    assert asked.ask() == []


def test_without_exploring_the_rest_is_in_the_order_of_forecasts(monkeypatch):
    monkeypatch.setattr("solkit.surrogate.asking.EXPLORED", 0.0)
    asked = AskTell(pool((128, 4, 64, 8, 32, 16), planned=1), Learner({}))
    assert drained(asked) == [128, 4, 8, 16, 32, 64]


def test_a_share_explores_where_the_interval_is_lowest(monkeypatch):
    monkeypatch.setattr("solkit.surrogate.asking.EXPLORED", 1.0)
    asked = AskTell(pool(), Learner({}))
    answers = asked.ask(4)
    assert blocks_of(answers) == [4, 8, 128, 64]
    assert answers[2].action is Action.EXPLORE


def test_forecasts_follow_what_was_told(monkeypatch):
    monkeypatch.setattr("solkit.surrogate.asking.EXPLORED", 0.0)
    asked = AskTell(pool(), Learner({}))
    for each in asked.ask(2):
        asked.tell(each.configuration, 10 * math.log2(each.configuration.params["BLOCKS"]))
    (answer,) = asked.ask()
    assert answer.forecast.time_ms == pytest.approx(40)  # 16 blocks
    assert answer.forecast.high_ms == pytest.approx(360)
    asked.tell(configuration(16), None)  # a failure teaches no time
    assert asked.ask()[0].forecast.time_ms == pytest.approx(50)


def test_the_same_seed_and_times_give_the_same_answers_in_whatever_order_they_are_told():
    def answers(seed, backwards):
        asked = AskTell(pool(tuple(range(2, 40)), planned=4), Learner({}), seed)
        first = asked.ask(4)
        for each in reversed(first) if backwards else first:
            asked.tell(each.configuration, each.configuration.params["BLOCKS"] ** 0.5)
        return blocks_of(asked.ask(30))

    assert answers(0, False) == answers(0, True)
    assert answers(0, False) != answers(1, False)


def test_what_is_believed_to_fail_is_asked_last():
    asked = AskTell(pool(failing=(4, 32)), Learner({}))
    found = drained(asked)
    assert sorted(found[-2:]) == [4, 32]
    assert sorted(found) == [4, 8, 16, 32, 64, 128]


def test_without_a_surrogate_the_plans_forecasts_decide():
    asked = AskTell(pool((128, 4, 64, 8), planned=0), None)
    assert drained(asked) == [4, 8, 64, 128]


def test_the_best_is_the_fastest_told():
    asked = AskTell(pool(), None)
    assert asked.best is None
    for blocks, time_ms in ((4, 3.0), (64, 2.0), (8, None), (16, 2.5)):
        asked.tell(configuration(blocks), time_ms)
    ranked, time_ms = asked.best
    assert (ranked.configuration.params, time_ms) == ({"BLOCKS": 64}, 2.0)
    assert blocks_of(asked.ask(9)) == [32, 128]  # what was told is not asked for


@pytest.mark.parametrize("time_ms", [0.0, -1.0, math.nan, math.inf])
def test_times_are_checked(time_ms):
    with pytest.raises(InputError, match="expected a positive number"):
        AskTell(pool(), None).tell(configuration(4), time_ms)


def test_unknown_candidates_are_refused():
    asked = AskTell(pool(), None)
    assert asked.knows(configuration(4))
    assert not asked.knows(configuration(5))
    with pytest.raises(InputError, match=r'no candidate with \{"BLOCKS":5\}'):
        asked.tell(configuration(5), 1.0)
