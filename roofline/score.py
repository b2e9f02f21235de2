"""The score: how far a measured time is from the speed of light, and the verdict on it.

The SOL score is that of SOL-ExecBench (NVIDIA): 1 at the roofline, 1/2 at the baseline's time,
towards 0 for slower kernels.
"""

from __future__ import annotations

from solkit.core import Bound, ClockKind, Device, Score, Verdict

CLOCK_MARGIN = 0.99
"""An H100 ran at 1995 MHz although NVML allows 1980: docs/lab/calibration.md."""


def sol_score(time_ms: float, sol_ms: float, baseline_ms: float) -> float:
    """1 / (1 + (t - t_sol) / (t_base - t_sol)), in [0, 1].

    Edge cases: 1 for a time at or below the roofline; if the baseline itself is at or below the
    roofline, any slower time scores 0.
    """
    if time_ms <= sol_ms:
        return 1.0
    if baseline_ms <= sol_ms:
        return 0.0
    return 1.0 / (1.0 + (time_ms - sol_ms) / (baseline_ms - sol_ms))


def score(bound: Bound, time_ms: float, reference_ms: float) -> Score:
    """Score a measured time against a bound and the reference's time.

    Args:
        bound: of the problem on the measured device.
        time_ms: of the candidate; above 0.
        reference_ms: of the reference, measured the same way.
    """
    calibrated = bound.at.calibrated_ms
    return Score(
        gap=time_ms / bound.time_ms if bound.time_ms else float("inf"),
        gap_calibrated=time_ms / calibrated if calibrated else None,
        sol_score=sol_score(time_ms, bound.time_ms, reference_ms),
        fraction_of_sol=bound.time_ms / time_ms,
    )


def time_verdict(time_ms: float, bound_ms: float, hard_ms: float, device: Device) -> Verdict:
    """Return the verdict on a correct candidate's time: correct, beats_algorithm or impossible.

    Impossible only if the ceilings hold at the GPU's highest clock, and by more than real clocks
    exceed NVML's.

    Args:
        time_ms: of the candidate.
        bound_ms: the roofline.
        hard_ms: the hard bound, as far as there is evidence of it on the timed inputs.
        device: the GPU.
    """
    if time_ms < CLOCK_MARGIN * hard_ms and device.clock_kind is ClockKind.MAXIMUM:
        return Verdict.IMPOSSIBLE
    if time_ms < bound_ms:
        return Verdict.BEATS_ALGORITHM
    return Verdict.CORRECT
