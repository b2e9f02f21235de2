"""Triage: which kernels are worth GPU time, from what is known without any.

Known are the speed of light, the calls, the time with the parameters in use (measured before,
profiled, or forecast), and what the surrogate thinks that the best parameters reach.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from solkit.core import Forecast, Triaged, Value, Worth, canonical
from solkit.surrogate.plan import Plan

LEAST_SHARE = 0.02
"""The share of a call that must seem to be saved. Less is within what the surrogate errs by."""


@dataclass(frozen=True)
class TriageInputs:
    """Times and forecasts of a kernel at a shape that its triage uses.

    Attributes:
        own: the parameters in use.
        choices: configurations to choose from.
        sol_ms: the speed of light; ``None`` (and so for all below) if unknown.
        plan: the surrogate's forecasts.
        measured_ms: a call with the parameters in use, as measured before.
        profiled_ms: a call, as profiled.
        least_ms: the best time of an earlier run.
    """

    own: Mapping[str, Value]
    choices: int
    sol_ms: float | None = None
    plan: Plan | None = None
    measured_ms: float | None = None
    profiled_ms: float | None = None
    least_ms: float | None = None


def triage_kernel(
    kernel: str,
    shape: Mapping[str, Value],
    calls: float,
    evidence: TriageInputs,
    stop_at: float = 0.95,
) -> Triaged:
    """Return what to think of a kernel at a shape.

    Args:
        kernel: its name.
        shape: its sizes.
        calls: how often it is called.
        evidence: what is known of it.
        stop_at: the share of the speed of light that is enough.
    """
    now_ms, source = _current_time(evidence)
    reachable_ms = _reachable(evidence, now_ms, source)
    saving_ms = None
    if now_ms is not None and reachable_ms is not None:
        saving_ms = calls * max(now_ms - reachable_ms, 0.0)
    worth, why = _judge_worth(evidence, now_ms, source, reachable_ms, stop_at)
    return Triaged(
        kernel, shape, calls, worth, why, evidence.sol_ms, now_ms, source, reachable_ms, saving_ms
    )


def _current_time(evidence: TriageInputs) -> tuple[float | None, str | None]:
    """Return the time with the parameters in use, and where it is from."""
    if evidence.measured_ms is not None:
        return evidence.measured_ms, "measured"
    if evidence.profiled_ms is not None:
        return evidence.profiled_ms, "profile"
    forecast = _own_forecast(evidence)
    if forecast is None or forecast.time_ms is None:
        return None, None
    return forecast.time_ms, "kernel model" if forecast.abstains else "surrogate"


def _own_forecast(evidence: TriageInputs) -> Forecast | None:
    if evidence.plan is None:
        return None
    own = canonical(evidence.own)
    ranked = evidence.plan.ranked
    return next((e.forecast for e in ranked if canonical(e.configuration.params) == own), None)


def _reachable(evidence: TriageInputs, now_ms: float | None, source: str | None) -> float | None:
    """Return the best forecast, on the level of `now_ms`; never below the speed of light.

    A forecast's level errs more than its order, so a measured time is multiplied by the ratio of
    the best forecast to that of the parameters in use.
    """
    candidates_ms = [] if evidence.least_ms is None else [evidence.least_ms]
    best_ms = _best_forecast_ms(evidence.plan)
    own = _own_forecast(evidence)
    if best_ms is not None and own is not None and own.time_ms and now_ms is not None:
        forecast = source in ("surrogate", "kernel model")
        candidates_ms.append(best_ms if forecast else now_ms * best_ms / own.time_ms)
    if not candidates_ms:
        return None
    return max(min(candidates_ms), evidence.sol_ms or 0.0)


def _best_forecast_ms(plan: Plan | None) -> float | None:
    if plan is None:
        return None
    able = [e.forecast for e in plan.ranked if e.forecast.p_fail < 1 / 2]
    trusted = [e.time_ms for e in able if e.time_ms is not None and not e.abstains]
    every = [e.time_ms for e in able if e.time_ms is not None]
    return min(trusted or every, default=None)


def _judge_worth(
    evidence: TriageInputs,
    now_ms: float | None,
    source: str | None,
    reachable_ms: float | None,
    stop_at: float,
) -> tuple[Worth, str]:
    if evidence.choices < 2:
        return Worth.UNKNOWN, "It has no SPACE, so there is nothing to choose."
    if now_ms is None:
        return Worth.UNKNOWN, "Nothing is known of its time."
    if evidence.sol_ms and evidence.sol_ms >= stop_at * now_ms:
        is_guess = source in ("surrogate", "kernel model")
        runs = "By forecast it runs" if is_guess else "It runs"
        return Worth.NEAR_SOL, f"{runs} at {evidence.sol_ms / now_ms:.0%} of the speed of light."
    gap = (
        f"{now_ms / evidence.sol_ms:.2f} times the speed of light"
        if evidence.sol_ms
        else "no bound"
    )
    if reachable_ms is None:
        return Worth.UNKNOWN, f"Nothing is known of other parameters; it takes {gap}."
    share = 1 - reachable_ms / now_ms
    if source == "kernel model" and evidence.least_ms is None:
        return Worth.UNKNOWN, f"The surrogate abstains; by the kernel model it takes {gap}."
    if share < LEAST_SHARE:
        return Worth.UNKNOWN, f"No faster parameters are foreseen, but it takes {gap}."
    return Worth.WORTH_TUNING, f"{share:.0%} of its time may be saved; it takes {gap}."
