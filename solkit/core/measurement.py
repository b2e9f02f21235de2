"""A candidate's verdict, time and score."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from solkit.core.analysis import KernelAnalysis


class Verdict(str, enum.Enum):
    """The result of checking and timing a candidate. Never ``None``."""

    NOT_MEASURED = "not_measured"
    CORRECT = "correct"
    WRONG = "wrong"
    DOES_NOT_COMPILE = "does_not_compile"
    CRASHED = "crashed"
    TIMED_OUT = "timed_out"
    OUT_OF_MEMORY = "out_of_memory"
    BEATS_ALGORITHM = "beats_algorithm"
    """Between hard bound and roofline: needs an explanation, is not an accusation."""
    IMPOSSIBLE = "impossible"
    """Below the hard bound: no correct kernel can do this."""
    CHEATING = "cheating"
    """Proven not to do the work within the timed call: the evidence says how."""
    UNSTABLE = "unstable"
    """Correct, but timed under unreliable conditions, which the evidence names."""
    DEGENERATE_PROBLEM = "degenerate_problem"
    """Correct, but the reference gives the same outputs for other inputs: its time means nothing.
    """

    @property
    def is_right(self) -> bool:
        """True if the candidate is correct and its time counts."""
        return self in (Verdict.CORRECT, Verdict.BEATS_ALGORITHM)

    @property
    def is_failure(self) -> bool:
        """True if the candidate failed and so has no valid time."""
        return self in _FAILURES


_FAILURES = frozenset(
    {
        Verdict.WRONG,
        Verdict.DOES_NOT_COMPILE,
        Verdict.CRASHED,
        Verdict.TIMED_OUT,
        Verdict.OUT_OF_MEMORY,
        Verdict.CHEATING,
    }
)


@dataclass(frozen=True)
class Protocol:
    """Method by which a time was taken.

    Attributes:
        method: ``"cupti"`` (CUPTI activity through PyTorch's profiler), ``"events"`` (CUDA events)
            or ``"graph replay"``; ``"wall clock"`` for a candidate that synchronises itself.
        l2: ``"cold"``: flushed before each call; ``"warm"``: after a call of the same.
        flush: how, in words.
        warmup_calls: untimed calls before.
        samples: timed calls.
        time_limit_s: seconds after which the candidate's process is killed.
        seed: of the inputs.
        name: of the `solkit.measure.timing.protocols.TimingProtocol`.
        launched: ``"eager"``, or ``"graph"``: captured in a CUDA graph that is replayed.
        timed_inputs: ``"drawn"``: anew by the problem before each timed call; ``"mixed"``: floating
            values moved within their tensors before each; ``"same"`` in all.
    """

    method: str
    l2: str
    flush: str
    warmup_calls: int
    samples: int
    time_limit_s: float
    seed: int
    name: str = "cold"
    launched: str = "eager"
    timed_inputs: str = "same"


@dataclass(frozen=True)
class Measurement:
    """Real timing of one candidate on one shape.

    Attributes:
        median_ms: median time of a call, last end minus first start over all it runs.
        low_ms, high_ms: 95 % confidence interval of that median.
        kernel_sum_ms: median of the summed kernel times; ``None`` if timed by events.
        reference_ms: median time of the reference, measured the same way.
        method: `Protocol.method`.
        max_error: largest ``|got - want|`` over all outputs.
        samples: how many calls were timed.
        sm_clock_mhz: median SM clock during timing; ``None`` if NVML did not report it.
        launches: Triton launches of the real run as `KernelAnalysis`, to compare with analysis.
    """

    median_ms: float
    low_ms: float
    high_ms: float
    kernel_sum_ms: float | None
    reference_ms: float
    method: str
    max_error: float
    samples: int
    sm_clock_mhz: float | None = None
    launches: tuple[KernelAnalysis, ...] = ()


@dataclass(frozen=True)
class Score:
    """Distance of a measured time from the speed of light.

    Attributes:
        gap: time / roofline.
        gap_calibrated: time / the bound at calibrated rates; ``None`` without a calibration.
        sol_score: 1/(1 + (t - t_sol)/(t_base - t_sol)) in [0, 1], t_base the reference's time.
        fraction_of_sol: roofline / time.
    """

    gap: float
    gap_calibrated: float | None
    sol_score: float
    fraction_of_sol: float
