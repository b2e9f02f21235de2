"""Regions that programs touch with a kernel's accesses, and their distinct bytes.

What one program touches with one access is a *region*: the lowest and highest address, and how many
bytes between them. Equal regions are the same data.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]

ADDRESS_BITS = 44
"""A pointer is its storage's number above this bit and the byte within the storage below it."""

SECTOR = 32
"""Bytes; the unit of traffic between L1, L2 and DRAM."""

_MOVING = 1.5
"""Bytes between the ends of all programs over those of the first half, where programs move on."""

_ODD = np.int64(-7046029254386353131)  # 2**64 over the golden ratio, which spreads well


@dataclass(frozen=True, eq=False)
class Region:
    """Region that each of some programs touches with one access.

    Attributes:
        low, high: first byte and end of it, of shape [programs]; -1 if unknown.
        size: bytes touched, each once; zero for programs that touch nothing.
        storage_bytes: of the tensor behind it, the most that it can touch; 0 if unknown.
        phase: equal for accesses of one loop, or between loops; increases with the code.
        kind: ``"load"``, ``"store"`` or ``"atomic"``.
        moved: bytes touched, counted again by each execution at another place than the previous
            one, of shape [programs]; what exceeds `size` was touched before.
        once: bytes that an execution touches, if the next ones may touch them again; zero if all
            else is touched first, as in a nested loop.
        covered: share of the bytes of its sectors that an execution requests.
        pairs: bytes of the 64-byte pairs of sectors that an execution touches, over `once`.
        gathered: whether the place comes from memory.
        argument: the pointer argument behind it; empty if unknown.
    """

    low: Array
    high: Array
    size: Array
    storage_bytes: int
    phase: int = 0
    kind: str = "load"
    moved: Array | None = None
    once: float = 0.0
    covered: float = 1.0
    pairs: float = 1.0
    gathered: bool = False
    argument: str = ""

    @property
    def reads(self) -> bool:
        """True if the old contents are needed."""
        return self.kind != "store"

    @property
    def writes(self) -> bool:
        """True if there are new contents."""
        return self.kind != "load"

    @property
    def place(self) -> int:
        """The number of its storage; -1 if unknown."""
        return int(self.low.max()) >> ADDRESS_BITS if self.low.max() >= 0 else -1

    @property
    def again(self) -> Array:
        """Bytes that each program touches again."""
        moved = self.size if self.moved is None else self.moved
        fresh: Array = np.maximum(moved - self.size, 0.0)
        return fresh


def unique_bytes(regions: Sequence[Region], scale: float = 1.0) -> float:
    """Return distinct bytes of all regions together.

    Args:
        regions: of the same programs.
        scale: programs of the launch over these; the others continue in the same way.
    """
    return sum(distinct_bytes(group, scale) for group in by_storage(regions))


def by_storage(regions: Sequence[Region]) -> Iterator[list[Region]]:
    """Yield regions grouped by storage; each of an unknown storage is alone."""
    groups: dict[int, list[Region]] = {}
    for number, region in enumerate(regions):
        groups.setdefault(region.place if region.place >= 0 else -1 - number, []).append(region)
    yield from groups.values()


def distinct_bytes(group: Sequence[Region], scale: float) -> float:
    """Return distinct bytes of the regions of one storage."""
    sizes = np.concatenate([region.size for region in group])
    order = np.argsort(-sizes, kind="stable")  # of equal regions the largest counts
    _, chosen = np.unique(numbers_of(group)[order], return_index=True)
    first = order[chosen]
    programs = len(group[0].low)
    low = np.concatenate([region.low for region in group])[first]
    high = np.concatenate([region.high for region in group])[first]
    storage = max(region.storage_bytes for region in group)
    total = float(sizes[first].sum())
    late = float(sizes[first][first % programs >= programs // 2].sum()) / max(total, 1.0)
    is_known = (low >= 0) & (sizes[first] > 0)
    span = _sector_span_bytes(
        low[is_known], high[is_known]
    )  # regions may overlap: no more than lies in it
    grown = min(total, span) * (1 + 2 * late * (scale - 1))
    if math.isfinite(span) and are_scattered(group, scale):
        early = is_known & (first % programs < programs // 2)
        if scale > 1 and span > _MOVING * _sector_span_bytes(low[early], high[early]):
            span *= scale  # further programs go on to other places
        return min(grown, _scattered(float(sizes.sum()) * scale, min(span, storage or span)))
    return min(grown, storage) if storage else grown


def _sector_span_bytes(low: Array, high: Array) -> float:
    """Count bytes of the sectors between the ends of all; infinite if none are known."""
    if not len(low):
        return math.inf
    return float((high.max() - 1) // SECTOR - low.min() // SECTOR + 1) * SECTOR


def are_scattered(regions: Sequence[Region], scale: float) -> bool:
    """Tell whether programs gather with repetitions, where regions do not show which are equal."""
    return all(_is_scattered(region, scale) for region in regions)


def _is_scattered(region: Region, scale: float) -> bool:
    if not region.gathered:
        return False
    is_touched = region.size > 0
    exact = scale == 1.0 and bool(np.all(region.size >= region.high - region.low))
    return not exact and len(np.unique(region.low[is_touched])) < int(is_touched.sum())


def _scattered(touched: float, span: float) -> float:
    """Return distinct bytes of those that are drawn from a span with replacement.

    Source: Cardenas, "Analysis and performance of inverted data base structures", 1975; of many.
    """
    return span * -math.expm1(-touched / span)


def region_keys(regions: Sequence[Region]) -> Array:
    """`numbers_of`, counted from 0 on, of shape [regions, programs]."""
    _, keys = np.unique(numbers_of(regions), return_inverse=True)
    by_region: Array = keys.reshape(len(regions), -1)
    return by_region


def numbers_of(regions: Sequence[Region]) -> Array:
    """Return a number for each region of each program, in their order; equal for equal regions."""
    low = np.concatenate([region.low for region in regions])
    high = np.concatenate([region.high for region in regions])
    unknown = low < 0
    low = np.where(unknown, -1 - np.arange(len(low)), low)
    with np.errstate(over="ignore"):
        pairs: Array = low * _ODD + high  # equal pairs give equal numbers, others all but never
    return pairs
