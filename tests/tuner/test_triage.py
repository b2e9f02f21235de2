"""What to think of a kernel before any GPU time is spent."""

from __future__ import annotations

import pytest

from solkit.core import Configuration, Depth, Forecast, Worth
from solkit.surrogate.plan import Action, Plan, Ranked
from solkit.tuner.triage import TriageInputs, triage_kernel

OWN = {"BLOCK": 16}


def plan(times_ms, abstains=False, fails=()):
    """Forecasts of BLOCK 16 (in use), 32, 64, ..."""
    ranked = [
        Ranked(
            Configuration("k.py", "kernel", {}, {"BLOCK": 16 << n}),
            Depth.LOWERED,
            Forecast(time_ms, None, None, float(n in fails), abstains),
            Action.MEASURE,
            "",
        )
        for n, time_ms in enumerate(times_ms)
    ]
    return Plan({}, tuple(ranked), 1.0)


def triaged(calls=10, stop_at=0.95, **known_fields):
    return triage_kernel(
        "k",
        {},
        calls,
        TriageInputs(**{"own": OWN, "choices": 9, "sol_ms": 1.0, **known_fields}),
        stop_at,
    )


def test_what_the_surrogate_thinks_can_be_saved_counts_once_a_call():
    result = triaged(plan=plan([4.0, 3.0, 2.0]))
    assert (result.worth, result.source) == (Worth.WORTH_TUNING, "surrogate")
    assert (result.now_ms, result.reachable_ms) == (4.0, 2.0)
    assert result.saving_ms == pytest.approx(20.0)
    assert result.why == "50% of its time may be saved; it takes 4.00 times the speed of light."


def test_a_measured_time_is_carried_to_the_best_by_the_ratio_of_forecasts():
    result = triaged(plan=plan([4.0, 3.0]), measured_ms=8.0)
    assert (result.now_ms, result.reachable_ms, result.source) == (8.0, 6.0, "measured")


def test_a_profiled_time_counts_less_than_a_measured_one():
    assert triaged(plan=plan([4.0, 3.0]), profiled_ms=2.0).source == "profile"
    assert triaged(measured_ms=8.0, profiled_ms=2.0).now_ms == 8.0


def test_nothing_is_reachable_below_the_speed_of_light():
    result = triaged(plan=plan([4.0, 0.5]))
    assert (result.reachable_ms, result.saving_ms) == (1.0, pytest.approx(30.0))


def test_what_is_expected_to_fail_is_not_reachable():
    assert triaged(plan=plan([4.0, 2.0, 3.0], fails=(1,))).reachable_ms == 3.0


def test_what_is_near_the_speed_of_light_is_left_alone():
    result = triaged(plan=plan([1.04, 1.0]))
    assert (result.worth, result.why[:19]) == (Worth.NEAR_SOL, "By forecast it runs")
    assert triaged(measured_ms=1.04).why == "It runs at 96% of the speed of light."
    assert triaged(plan=plan([1.04, 1.0]), stop_at=0.99).worth is Worth.WORTH_TUNING


@pytest.mark.parametrize(
    ("known_value", "why"),
    [
        ({}, "Nothing is known of its time."),
        ({"choices": 1, "plan": plan([4.0])}, "It has no SPACE"),
        ({"measured_ms": 4.0}, "Nothing is known of other parameters; it takes 4.00 times"),
        ({"plan": plan([4.0, 2.0], abstains=True)}, "The surrogate abstains"),
        ({"plan": plan([4.0, 3.99])}, "No faster parameters are foreseen, but it takes 4.00"),
        ({"measured_ms": 4.0, "sol_ms": None}, "it takes no bound"),
    ],
)
def test_what_cannot_be_said_is_unknown(known_value, why):
    result = triaged(**known_value)
    assert result.worth is Worth.UNKNOWN
    assert why in result.why


def test_an_earlier_run_shows_what_is_reachable():
    result = triaged(measured_ms=4.0, least_ms=3.0)
    assert (result.worth, result.saving_ms) == (Worth.WORTH_TUNING, pytest.approx(10.0))
