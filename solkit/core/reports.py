"""Reports of `solkit score` and `solkit compare`."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass

from solkit.core.analysis import Analysis, FailedShape, Forecast, Gap
from solkit.core.best import BestAlgorithm
from solkit.core.devices import Device
from solkit.core.measurement import Measurement, Protocol, Score, Verdict
from solkit.core.problems import KernelFile, Tolerance
from solkit.core.values import Value
from solkit.core.work import Bound, Fusion, Work


@dataclass(frozen=True)
class Result:
    """All that is known of one candidate on one shape.

    Attributes:
        gap: of the measured time, else of the kernel model's.
        forecast: the surrogate's; ``None`` if no model is installed or the launches are not known.
        best: the best algorithm that was proven equal; ``None`` if none was looked for.
    """

    shape: Mapping[str, Value]
    params: Mapping[str, Value]
    verdict: Verdict
    work: Work
    bound: Bound
    analysis: Analysis
    protocol: Protocol | None = None
    measurement: Measurement | None = None
    score: Score | None = None
    errors: tuple[str, ...] = ()
    fusion: Fusion | None = None
    gap: Gap | None = None
    tolerance: Tolerance | None = None
    forecast: Forecast | None = None
    best: BestAlgorithm | None = None


@dataclass(frozen=True)
class Report:
    """Report of ``solkit score``: one `Result` per shape.

    Attributes:
        environment: versions by name (``solkit``, ``python``, ``torch``, ``triton``, ``driver``).
        kernel: the file.
        device: the target.
        results: in the order of the shapes.
        failed: shapes that have no result.
    """

    environment: Mapping[str, str | None]
    kernel: KernelFile
    device: Device
    results: tuple[Result, ...]
    failed: tuple[FailedShape, ...] = ()


class Difference(str, enum.Enum):
    """The result of timing a candidate in turns with another. Never ``None``."""

    FASTER = "faster"
    SLOWER = "slower"
    NOT_SHOWN = "no_difference_shown"
    """The ratio's interval contains 1: no difference, or too few samples to show one."""
    UNSTABLE = "unstable"
    """Timed under unreliable conditions, which the evidence names."""
    NOT_COMPARED = "not_compared"
    """One of the two failed, or the two could not be timed in turns: the evidence says why."""


@dataclass(frozen=True)
class Ratio:
    """A candidate's time over that of its base; see `solkit.measure.timing.comparison_statistics`.

    Attributes:
        value: below 1 if the candidate is faster.
        low, high: 95 % interval, widened by `resolution`.
        resolution: the smallest difference that any number of turns can show, as a share of the
            ratio.
        turns: number of calls of each.
    """

    value: float
    low: float
    high: float
    resolution: float
    turns: int


@dataclass(frozen=True)
class Comparison:
    """A candidate and its base on one shape, timed in turns.

    Attributes:
        kernel: the candidate's file.
        base, candidate: each checked and timed alone, against the reference.
        difference: what the ratio shows.
        ratio: ``None`` if nothing was compared.
        base_ms, candidate_ms: median times in turns; ``None`` if not timed.
        protocol: of the turns; ``None`` if not timed.
        errors: the evidence, and notes.
    """

    kernel: KernelFile
    base: Result
    candidate: Result
    difference: Difference
    ratio: Ratio | None = None
    base_ms: float | None = None
    candidate_ms: float | None = None
    protocol: Protocol | None = None
    errors: tuple[str, ...] = ()


@dataclass(frozen=True)
class ComparisonReport:
    """Report of ``solkit compare``: one `Comparison` per shape and candidate.

    Attributes:
        environment: as in `Report`.
        base: the file that the others are compared with.
        candidates: the others.
        device: the GPU.
        comparisons: shape by shape, the candidates of each in their order.
        failed: shapes that have no comparison.
    """

    environment: Mapping[str, str | None]
    base: KernelFile
    candidates: tuple[KernelFile, ...]
    device: Device
    comparisons: tuple[Comparison, ...]
    failed: tuple[FailedShape, ...] = ()
