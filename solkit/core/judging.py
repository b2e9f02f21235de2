"""Judgements of times that somebody reports, made without a GPU."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass

from solkit.core.devices import Device
from solkit.core.outcomes import Outcome
from solkit.core.values import Value
from solkit.core.work import Bound, Work


class Plausibility(str, enum.Enum):
    """Verdict on a reported time. Never ``None``."""

    POSSIBLE = "possible"
    """At or above the roofline."""
    NEEDS_TENSOR_CORES = "needs_tensor_cores"
    """Below the roofline of the declared dtypes: products of fp32 on the scalar pipes."""
    NEEDS_LOW_PRECISION = "needs_low_precision"
    """Below the roofline of every route that SolKit's referee accepts at its default strictness."""
    BEATS_ALGORITHM = "beats_algorithm"
    """Below the roofline of the traced algorithm in any precision, not below the hard bound."""
    IMPOSSIBLE = "impossible"
    """Below the hard bound, by more than the timer and the clock explain."""
    NOT_JUDGED = "not_judged"
    """No time, no problem or no bound: the reasons say which."""


@dataclass(frozen=True)
class JudgedProblem:
    """Needs of a problem at one shape on one GPU.

    Attributes:
        path: the problem's file.
        shape: its sizes.
        device: the GPU; its highest clock counts.
        work: what it costs at the least.
        bound: with inputs in DRAM, at the precision that the referee accepts.
        l2: ``"cold"`` if the report says that L2 was flushed, else ``"warm"``: inputs may be there
            as far as they fit. All further times are for this state.
        warm_ms: the roofline.
        hard_ms: the hard bound.
        proven_ms: the part of the hard bound that holds at any clock of this model; 0 if values
            were guessed. A time below it is impossible.
        hard_limiter: what `proven_ms` rests on: ``"dram"``, ``"l2"`` or ``"contractions"``.
        declared_ms: the roofline of the declared dtypes.
        least_ms: the roofline in the fastest precision of any.
        least_precision: that precision; empty if it is the one that the referee accepts.
        doubts: reasons why `proven_ms` is below `hard_ms`, a sentence each.
        plan: steps and roofline of a plan that was proven equal and lowered the hard bound; empty
            if there is none.
    """

    path: str
    shape: Mapping[str, Value]
    device: Device
    work: Work
    bound: Bound
    l2: str
    warm_ms: float
    hard_ms: float
    proven_ms: float
    hard_limiter: str
    declared_ms: float
    least_ms: float
    least_precision: str
    doubts: tuple[str, ...] = ()
    plan: str = ""


@dataclass(frozen=True)
class Judgement:
    """A reported time and what SolKit says of it.

    Attributes:
        row: the report, as the importer read it.
        plausibility: the verdict.
        time_ms: the judged time; ``None`` if there is none.
        margin_ms: how much longer the true time may have been: digits and timer.
        problem: ``None`` if none was found or bounded.
        limiter: the resource behind the bound that the verdict rests on.
        reasons: a sentence each.
        suspicions: what is odd about the time, a sentence each; not part of the verdict.
    """

    row: Outcome
    plausibility: Plausibility
    time_ms: float | None = None
    margin_ms: float = 0.0
    problem: JudgedProblem | None = None
    limiter: str = ""
    reasons: tuple[str, ...] = ()
    suspicions: tuple[str, ...] = ()

    @property
    def sol_share(self) -> float | None:
        """The roofline over the time: 1 at the speed of light."""
        if self.problem is None or not self.time_ms:
            return None
        return self.problem.bound.time_ms / self.time_ms

    @property
    def hard_slack(self) -> float | None:
        """The time over the hard bound: below 1 where it is beaten."""
        if self.problem is None or not self.time_ms or not self.problem.hard_ms:
            return None
        return self.time_ms / self.problem.hard_ms


@dataclass(frozen=True)
class JudgeReport:
    """Report of ``solkit judge``.

    Attributes:
        environment: versions by name.
        sources: the files with the times.
        judgements: one for each row, in the file's order.
        faults: what could not be read, a sentence each.
    """

    environment: Mapping[str, str | None]
    sources: tuple[str, ...]
    judgements: tuple[Judgement, ...]
    faults: tuple[str, ...] = ()
