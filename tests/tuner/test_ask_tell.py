from __future__ import annotations

import math

import pytest

from solkit.core import Configuration, Depth
from solkit.errors import InputError
from solkit.roofline import devices
from solkit.surrogate.plan import Action, Forecast, Plan, Ranked
from solkit.tuner.ask_tell import AskTell

H100 = devices.find("h100-sxm")


def configuration(blocks):
    return Configuration("k.py", "run", {}, {"BLOCKS": blocks})


def pool(blocks=(4, 8, 16, 32, 64, 128), planned=2, failing=()):
    """Candidates by number of blocks: the first are planned, some are believed to fail."""
    ranked = []
    for place, each in enumerate(blocks):
        fails = each in failing
        action = Action.MEASURE if place < planned and not fails else Action.SKIP
        forecast = Forecast(None if fails else math.log2(each), None, None, float(fails), False)
        ranked.append(Ranked(configuration(each), Depth.CAPTURED, forecast, action, "Because."))
    return Plan({}, tuple(ranked), 1.0)


def blocks_of(answers):
    return [each.configuration.params["BLOCKS"] for each in answers]


def drained(asked, times=None):
    found = []
    while answers := asked.ask():
        found += blocks_of(answers)
        asked.tell(answers[0].configuration, times[found[-1]] if times else 1.0)
    return found


def test_the_plan_comes_first_then_the_lowest_forecasts_and_nothing_twice():
    asked = AskTell(pool(), seed=3)
    assert blocks_of(asked.ask(2)) == [4, 8]
    assert not asked.exhausted
    rest = blocks_of(asked.ask(9))
    assert sorted(rest) == [16, 32, 64, 128]
    assert asked.exhausted
    assert asked.ask() == []


def test_answers_follow_what_was_told():
    """Forecasts say the fewer blocks the better, and times say the contrary."""
    asked = AskTell(pool(tuple(range(2, 66)), planned=6))
    for each in asked.ask(6):
        asked.tell(each.configuration, 1000 / each.configuration.params["BLOCKS"])
    found = []
    for _ in range(14):
        (answer,) = asked.ask()
        found += blocks_of([answer])
        asked.tell(answer.configuration, 1000 / found[-1])
    assert max(found) >= 60


def test_an_answer_has_the_searchs_forecast():
    asked = AskTell(pool(tuple(range(2, 34)), planned=6))
    for each in asked.ask(6):
        asked.tell(each.configuration, 10 * math.log2(each.configuration.params["BLOCKS"]))
    (answer,) = asked.ask()
    expected = 10 * math.log2(answer.configuration.params["BLOCKS"])  # the plan says a tenth of it
    assert answer.forecast.time_ms == pytest.approx(expected, rel=0.2)
    assert answer.forecast.low_ms < answer.forecast.time_ms < answer.forecast.high_ms
    assert answer.action is Action.MEASURE


def test_several_kernels_are_searched_together():
    ranked = []
    for file, factor in (("a.py", 1.0), ("b.py", 4.0)):
        for blocks in range(2, 12):
            forecast = Forecast(factor * blocks, None, None, 0.0, False)
            params = {"BLOCKS": blocks} if file == "a.py" else {"ROWS": blocks}
            where = Configuration(file, "run", {}, params)
            ranked.append(Ranked(where, Depth.CAPTURED, forecast, Action.SKIP, ""))
    asked = AskTell(Plan({}, tuple(ranked), 1.0))
    found = [asked.ask()[0].configuration for _ in range(20)]
    assert asked.ask() == []
    assert (found[0].path, found[0].params) == ("a.py", {"BLOCKS": 2})
    assert len({(each.path, str(each.params)) for each in found}) == 20


def test_the_same_seed_and_times_give_the_same_answers_in_whatever_order_they_are_told():
    def answers(seed, backwards):
        asked = AskTell(pool(tuple(range(2, 40)), planned=4), seed)
        first = asked.ask(4)
        for each in reversed(first) if backwards else first:
            asked.tell(each.configuration, each.configuration.params["BLOCKS"] ** 0.5)
        return blocks_of(asked.ask(30))

    assert answers(0, False) == answers(0, True)


def test_what_is_believed_to_fail_is_asked_last():
    asked = AskTell(pool(failing=(4, 32)))
    found = drained(asked)
    assert sorted(found[-2:]) == [4, 32]
    assert sorted(found) == [4, 8, 16, 32, 64, 128]


def test_without_a_planned_candidate_the_lowest_forecast_comes_first():
    asked = AskTell(pool((128, 4, 64, 8), planned=0))
    assert drained(asked)[0] == 4


def test_the_best_is_the_fastest_told():
    asked = AskTell(pool())
    assert asked.best is None
    for blocks, time_ms in ((4, 3.0), (64, 2.0), (8, None), (16, 2.5)):
        asked.tell(configuration(blocks), time_ms)
    ranked, time_ms = asked.best
    assert (ranked.configuration.params, time_ms) == ({"BLOCKS": 64}, 2.0)
    assert sorted(blocks_of(asked.ask(9))) == [32, 128]  # what was told is not asked for


@pytest.mark.parametrize("time_ms", [0.0, -1.0, math.nan, math.inf])
def test_times_are_checked(time_ms):
    with pytest.raises(InputError, match="expected a positive number"):
        AskTell(pool()).tell(configuration(4), time_ms)


def test_unknown_candidates_are_refused():
    asked = AskTell(pool())
    assert asked.knows(configuration(4))
    assert not asked.knows(configuration(5))
    with pytest.raises(InputError, match=r'no candidate with \{"BLOCKS":5\}'):
        asked.tell(configuration(5), 1.0)
