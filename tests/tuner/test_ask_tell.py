from __future__ import annotations

import math

import pytest

from solkit.core import Configuration, Depth, Forecast
from solkit.errors import InputError
from solkit.roofline import devices
from solkit.surrogate.plan import Action, Plan, Ranked
from solkit.tuner.ask_tell import AskTell

H100 = devices.find("h100-sxm")


def configuration(blocks):
    return Configuration("k.py", "run", {}, {"BLOCKS": blocks})


def pool(blocks=(4, 8, 16, 32, 64, 128), planned=2, failing=()):
    """Candidates by number of blocks: the first are planned, some are believed to fail."""
    ranked = []
    for place, block in enumerate(blocks):
        fails = block in failing
        action = Action.MEASURE if place < planned and not fails else Action.SKIP
        forecast = Forecast(None if fails else math.log2(block), None, None, float(fails), False)
        ranked.append(Ranked(configuration(block), Depth.CAPTURED, forecast, action, "Because."))
    return Plan({}, tuple(ranked), 1.0)


def blocks_of(answers):
    return [answer.configuration.params["BLOCKS"] for answer in answers]


def drained(request, times=None):
    results = []
    while answers := request.ask():
        results += blocks_of(answers)
        request.tell(answers[0].configuration, times[results[-1]] if times else 1.0)
    return results


def test_the_plan_comes_first_then_the_lowest_forecasts_and_nothing_twice():
    tuner = AskTell(pool(), seed=3)
    assert blocks_of(tuner.ask(2)) == [4, 8]
    assert not tuner.exhausted
    rest = blocks_of(tuner.ask(9))
    assert sorted(rest) == [16, 32, 64, 128]
    assert tuner.exhausted
    assert tuner.ask() == []


def test_answers_follow_what_was_told():
    """Forecasts say the fewer blocks the better, and times say the contrary."""
    tuner = AskTell(pool(tuple(range(2, 66)), planned=6))
    for point in tuner.ask(6):
        tuner.tell(point.configuration, 1000 / point.configuration.params["BLOCKS"])
    results = []
    for _ in range(14):
        (answer,) = tuner.ask()
        results += blocks_of([answer])
        tuner.tell(answer.configuration, 1000 / results[-1])
    assert max(results) >= 60


def test_an_answer_has_the_searchs_forecast():
    tuner = AskTell(pool(tuple(range(2, 34)), planned=6))
    for point in tuner.ask(6):
        tuner.tell(point.configuration, 10 * math.log2(point.configuration.params["BLOCKS"]))
    (answer,) = tuner.ask()
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
    tuner = AskTell(Plan({}, tuple(ranked), 1.0))
    configurations = [tuner.ask()[0].configuration for _ in range(20)]
    assert tuner.ask() == []
    assert (configurations[0].path, configurations[0].params) == ("a.py", {"BLOCKS": 2})
    assert (
        len({(configuration.path, str(configuration.params)) for configuration in configurations})
        == 20
    )


def test_the_same_seed_and_times_give_the_same_answers_in_whatever_order_they_are_told():
    def answers(seed, backwards):
        tuner = AskTell(pool(tuple(range(2, 40)), planned=4), seed)
        first = tuner.ask(4)
        for item in reversed(first) if backwards else first:
            tuner.tell(item.configuration, item.configuration.params["BLOCKS"] ** 0.5)
        return blocks_of(tuner.ask(30))

    assert answers(0, False) == answers(0, True)


def test_what_is_believed_to_fail_is_asked_last():
    tuner = AskTell(pool(failing=(4, 32)))
    outcomes = drained(tuner)
    assert sorted(outcomes[-2:]) == [4, 32]
    assert sorted(outcomes) == [4, 8, 16, 32, 64, 128]


def test_without_a_planned_candidate_the_lowest_forecast_comes_first():
    tuner = AskTell(pool((128, 4, 64, 8), planned=0))
    assert drained(tuner)[0] == 4


def test_the_best_is_the_fastest_told():
    tuner = AskTell(pool())
    assert tuner.best is None
    for blocks, time_ms in ((4, 3.0), (64, 2.0), (8, None), (16, 2.5)):
        tuner.tell(configuration(blocks), time_ms)
    ranked, time_ms = tuner.best
    assert (ranked.configuration.params, time_ms) == ({"BLOCKS": 64}, 2.0)
    assert sorted(blocks_of(tuner.ask(9))) == [32, 128]  # what was told is not asked for


@pytest.mark.parametrize("time_ms", [0.0, -1.0, math.nan, math.inf])
def test_times_are_checked(time_ms):
    with pytest.raises(InputError, match="expected a positive number"):
        AskTell(pool()).tell(configuration(4), time_ms)


def test_unknown_candidates_are_refused():
    tuner = AskTell(pool())
    assert tuner.knows(configuration(4))
    assert not tuner.knows(configuration(5))
    with pytest.raises(InputError, match=r'no candidate with \{"BLOCKS":5\}'):
        tuner.tell(configuration(5), 1.0)
