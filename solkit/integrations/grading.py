"""Grades of candidates for search loops and for reinforcement learning.

A loop needs one number for each candidate, and numbers that tell candidates apart. `combined_score`
rises from what is refused to what is fast::

    0           refused, wrong, cheating: nothing that is not correct earns more
    below 0.5   rejected by the forecast; less, the further it is off
    0.5         passed stage 1; no time counts yet
    above 0.5   correct and timed: 0.5 + SOL score / 2
"""

from __future__ import annotations

import enum
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from solkit.core import Analysis, Device, Gap, KernelAnalysis, Result, Value, Verdict
from solkit.tuner.evolution.population_archive import behaviour_of

NOT_RECORDED = "not_recorded"
"""The verdict on a source that a recording does not hold."""

PASSED_SCORE = 0.5
_MOST_REJECTED = 0.499  # stays below `PASSED_SCORE`
_TELLING = 1.05  # factors of the gap below this explain nothing
_MOST_FACTORS = 4

Advise = Callable[[Result, Device], tuple[str, ...]]
"""Gives sentences of advice on a result, such as `solkit.report.advice.advise`."""

_LIMITERS = (
    *("unknown", "dram", "l2", "l1", "tensor", "fp32", "fp64", "sfu", "issue", "shared"),
    *("atomics", "latency", "fetch", "dispatch", "launch"),
)

FEATURES = (
    "launches",
    "limiter",
    "log2_blocks",
    "blocks_per_sm",
    "shared_kib",
    "registers",
    "log2_threads",
)
"""Dimensions that tell kernels apart, without a GPU; every `Graded.features` has them all.

- ``launches``: 0 to 3; 0 if nothing is known.
- ``limiter``: the place of the longest launch's limiter in a fixed list; 0 if unknown.
- ``log2_blocks``, ``log2_threads``: of its grid, and of one block.
- ``blocks_per_sm``: of its grid, at most 64.
- ``shared_kib``, ``registers``: a block's shared memory, a thread's registers.
"""
_NOTHING: dict[str, float] = dict.fromkeys(FEATURES, 0.0)


class Stage(str, enum.Enum):
    """Stage that a candidate reached."""

    REFUSED = "refused"
    """It cannot be used, or plainly cheats; or a recording does not hold it."""
    REJECTED = "rejected by forecast"
    """Even its optimistic forecast is clearly slower than what is known."""
    PASSED = "passed stage 1"
    """It deserves a measurement, and has none that counts."""
    MEASURED = "measured"
    """It was checked and timed, whatever came of it."""


@dataclass(frozen=True)
class Graded:
    """Grade that an `Evaluator` gives a candidate.

    Attributes:
        verdict: a value of `solkit.core.Verdict`, or ``"not_recorded"``.
        stage: how far it got.
        combined_score: 0 to 1; see this module.
        params: the parameters that this is about.
        time_ms: its median time; ``None`` if it has none that counts.
        gap: that time over the speed of light.
        sol_score: see `solkit.core.Score`; ``None`` without a time.
        sol_ms: the speed of light of the problem; ``None`` if the candidate was not analysed.
        forecast_ms: the time that the surrogate expects; ``None`` if nothing is forecast.
        forecast_low_ms, forecast_high_ms: its 90 % interval.
        limiter: what limits its longest launch, such as ``"dram"``; empty if unknown.
        behaviour: as the archive of `solkit.tuner.evolution` keeps kernels apart.
        features: numbers for a map of diverse kernels, by the names in `FEATURES`.
        reasons: why it has this grade, and what to do about it; sentences, the most important
            first.
    """

    verdict: str
    stage: Stage
    combined_score: float
    params: Mapping[str, Value] = field(default_factory=dict)
    time_ms: float | None = None
    gap: float | None = None
    sol_score: float | None = None
    sol_ms: float | None = None
    forecast_ms: float | None = None
    forecast_low_ms: float | None = None
    forecast_high_ms: float | None = None
    limiter: str = ""
    behaviour: tuple[str, ...] = ()
    features: Mapping[str, float] = field(default_factory=lambda: dict(_NOTHING))
    reasons: tuple[str, ...] = ()

    @property
    def is_right(self) -> bool:
        """True if it is correct and its time counts."""
        return self.stage is Stage.MEASURED and self.time_ms is not None


@dataclass(frozen=True)
class Reward:
    """Reward of a candidate in reinforcement learning.

    Attributes:
        value: the SOL score, 0 to 1, of a correct candidate; 0 for everything else: what is wrong,
            what cheats, and what was not measured.
        verdict: as in `Graded`.
        gap: its time over the speed of light; ``None`` if it earns nothing.
        sol_score: likewise.
        time_ms: likewise.
        reasons: as in `Graded`.
    """

    value: float
    verdict: str
    gap: float | None = None
    sol_score: float | None = None
    time_ms: float | None = None
    reasons: tuple[str, ...] = ()

    @staticmethod
    def of(graded: Graded) -> Reward:
        """Return the reward for a grade."""
        value = (graded.sol_score or 0.0) if graded.is_right else 0.0
        measures = graded.gap, graded.sol_score, graded.time_ms
        return Reward(value, graded.verdict, *measures, graded.reasons)


def rejected_score(low_ms: float, limit_ms: float) -> float:
    """Return the score of a candidate expected to take at least `low_ms`, above the limit."""
    return min(PASSED_SCORE * limit_ms / low_ms, _MOST_REJECTED)


def features_of(analysis: Analysis, device: Device) -> Mapping[str, float]:
    """Return numbers that tell kernels apart, by the names in `FEATURES`."""
    if not analysis.kernels:
        return dict(_NOTHING)
    main = longest_launch(analysis)
    blocks, facts = math.prod(main.launch.grid), main.facts
    values = (
        float(min(len(analysis.kernels), 3)),
        float(_limiter_place(limiter_of(analysis))),
        math.log2(max(blocks, 1)),
        min(blocks / (device.sm_count or 1), 64.0),
        (facts.shared_bytes or 0) / 1024,
        float(facts.registers or 0),
        math.log2(32 * max(main.launch.num_warps or 1, 1)),
    )
    return dict(zip(FEATURES, values, strict=True))


def longest_launch(analysis: Analysis) -> KernelAnalysis:
    """Return the launch with the longest modelled time."""
    return max(analysis.kernels, key=lambda kernel: kernel.model.time_ms if kernel.model else 0.0)


def limiter_of(analysis: Analysis) -> str:
    """Return the limiter of the longest launch; empty if unknown."""
    if not analysis.kernels or (model := longest_launch(analysis).model) is None:
        return ""
    return model.limiter


def known_fields(analysis: Analysis, device: Device) -> dict[str, object]:
    """Return fields of `Graded` that analysis gives."""
    return {
        "limiter": limiter_of(analysis),
        "behaviour": behaviour_of(analysis, device, Verdict.NOT_MEASURED),
        "features": features_of(analysis, device),
    }


def reasons_of(result: Result, device: Device, advise: Advise) -> tuple[str, ...]:
    """Return what is wrong, what the gap is made of, and advice."""
    return (*result.errors, *_largest_factors(result.gap), *advise(result, device))


def _largest_factors(gap: Gap | None) -> list[str]:
    """Return the largest factors of a gap, each with its evidence."""
    if gap is None:
        return []
    telling = [factor for factor in gap.factors if factor.factor >= _TELLING]
    telling.sort(key=lambda factor: -factor.factor)
    return [f"{e.name} costs {e.factor:.2f}x: {e.evidence}" for e in telling[:_MOST_FACTORS]]


def _limiter_place(limiter: str) -> int:
    name = limiter.split(".")[0]
    return _LIMITERS.index(name) if name in _LIMITERS else 0
