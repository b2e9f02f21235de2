"""Batch sizes that a file of tuned configurations needs.

vLLM and SGLang look a configuration up by the batch size M that is nearest to the one at hand; of
two that are equally near they take the one that the file has first, which is the smaller here. So
leaving out an M moves its lookups to a neighbour, usually the smaller one.

An M is left out only if every tuned M is still served by its own configuration, or by one that was
measured at that M and took no longer within the noise. The smallest and the largest M stay: they
serve all batches beyond them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from solkit.core import canonical
from solkit.measure.timing.comparison_statistics import LIKENESS
from solkit.tuner.emitters._base import chosen_of
from solkit.tuner.tuning_results import TuningResult

__all__ = ["nearest", "needed", "serves"]


def nearest(size: int, sizes: Sequence[int]) -> int:
    """Return the batch size that a lookup finds; `sizes` in the file's order."""
    return min(sizes, key=lambda other: abs(other - size))


def serves(other: TuningResult, finding: TuningResult) -> bool:
    """Tell whether another batch size's parameters are as good at this one, as far as known."""
    own, offered = (canonical(chosen_of(item).params) for item in (finding, other))
    best, taken = (finding.times.get(params) for params in (own, offered))
    if best is None or best.time_ms is None or taken is None or taken.time_ms is None:
        return False
    noise_ms = best.time_ms * (1 + LIKENESS)
    return taken.time_ms <= max(best.high_ms or 0.0, noise_ms)


def needed(tuned: Mapping[int, TuningResult]) -> list[int]:
    """Return the batch sizes to write, ascending.

    Args:
        tuned: what was found for each.
    """
    sizes = sorted(tuned)
    for size in sizes[1:-1]:
        fewer = [other for other in sizes if other != size]
        if _serve_all(fewer, tuned):
            sizes = fewer
    return sizes


def _serve_all(sizes: Sequence[int], tuned: Mapping[int, TuningResult]) -> bool:
    served = ((size, nearest(size, sizes)) for size in tuned)
    return all(size == by or serves(tuned[by], tuned[size]) for size, by in served)
