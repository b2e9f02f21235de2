"""Largest savings of a kernel without what a cause describes.

A factor of the gap is about all launches of a call, its cause about some of them: no more than
their part is saved. Factors follow one another, so one may also hide behind a later one: without
the instructions of a kernel that waits for its blocks to start, nothing is saved.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from solkit.core import Cause, GapFactor
from solkit.roofline.kernel.launch_view import LaunchView

_LEAST_MS = 1e-9
_SAVES = 1.02  # times as fast by the model, below which another resource takes as long
_ALSO = {
    "contended atomics": ("extra traffic",),
    "doubles": ("instructions",),
    "few blocks": ("tail",),
    "index arithmetic": ("instructions",),
    "scalar product": ("instructions", "extra traffic"),
    "spills": ("extra traffic", "latency"),
}
"""Factors that a cause is behind too, wherever it is named."""


def with_speedups(
    factors: Sequence[GapFactor],
    added_ms: Sequence[Mapping[int, float]],
    kernels: Sequence[LaunchView],
) -> list[GapFactor]:
    """Factors with what removing their causes saves.

    Args:
        factors: of a gap.
        added_ms: of each factor, what it adds to each launch, by position; empty for what is about
            all launches.
        kernels: all launches.
    """
    estimated = []
    for factor, added in zip(factors, added_ms, strict=True):
        if factor.cause is not None:
            named = _named_launches(factor.cause, kernels)
            behind = [other.name for other in factors if other.cause == factor.cause]
            speedup = _factor_of_part(factor.factor, added, named)
            if factor.cause.name.startswith("bank conflicts"):
                speedup = min(speedup, _without_conflicts(named))
            shorter = _times_shorter(factor.cause, behind, named, kernels) if added else math.inf
            if factor.cause.name == "one element a request":
                speedup = min(speedup, shorter)  # the chain of what uses each element stays
            if shorter < _SAVES:
                speedup = 1.0
            factor = replace(factor, speedup=speedup)
        estimated.append(factor)
    return estimated


def _named_launches(cause: Cause, kernels: Sequence[LaunchView]) -> Sequence[LaunchView]:
    """Return the launches of the functions that a cause names."""
    names = {str(cause.figures.get(key, "")) for key in ("kernel", "reader")}
    names |= set(str(cause.figures.get("kernels", "")).split(", "))
    return [kernel for kernel in kernels if kernel.name in names]


def _factor_of_part(
    factor: float, added_ms: Mapping[int, float], named: Sequence[LaunchView]
) -> float:
    """Return a factor that only some launches lose."""
    whole = sum(added_ms.values())
    part = sum(added_ms[kernel.position] for kernel in named) / whole if whole else 1.0
    return 1 / (1 - part * (1 - 1 / max(factor, 1.0)))


def _without_conflicts(named: Sequence[LaunchView]) -> float:
    """Return how many times as fast the memory of launches would be without bank conflicts."""
    least = (max(kernel.without_conflicts_ms(), _LEAST_MS) for kernel in named)
    return max(
        (k.traffic_ms / least_ms for k, least_ms in zip(named, least, strict=True)), default=1.0
    )


def _times_shorter(
    cause: Cause,
    behind: Collection[str],
    named: Sequence[LaunchView],
    kernels: Sequence[LaunchView],
) -> float:
    """Return the time of launches over that without the terms that a cause is behind."""
    if cause.name == "unneeded work":
        return math.inf  # takes less of everything
    factors = {*behind, *_ALSO.get(cause.name, ())}
    whole_ms = sum(kernel.time_ms * kernel.count for kernel in kernels)
    saved_ms = sum(kernel.count * (kernel.running() - kernel.without(factors)) for kernel in named)
    return whole_ms / max(whole_ms - saved_ms, _LEAST_MS)
