"""Which of a kernel's accesses L1 and L2 absorb.

What one program touches with one access of the code is a *region*: the bytes between the lowest and
the highest address, and how many of them. Equal regions are the same data.

L1 (for plain loads: ``cp.async`` of 16 bytes and TMA go past it, PTX ISA ``cp.async.cg``): what a
block asks for twice within one execution, or again without having moved, is a hit; and so is what
another load of the same step or an earlier loop has read, as long as all that the SM's blocks read
fits.

L2: blocks start in the order of their numbers, as many at a time as the device holds (a wave).
Those of a wave run side by side, so that what several of them read is fetched once. From loop to
loop and from wave to wave the regions that were used last stay (least recently used goes first;
Mattson et al., "Evaluation techniques for storage hierarchies", 1970).
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from solkit.analysis.programs import ADDRESS_BITS
from solkit.core import Device, Occupancy

__all__ = ["SECTOR", "Region", "dram_bytes", "l2_read_bytes", "unique_bytes"]

Array = np.ndarray[Any, np.dtype[Any]]

SECTOR = 32
"""Bytes; the unit of traffic between L1, L2 and DRAM."""

_ODD = np.int64(-7046029254386353131)  # 2**64 over the golden ratio, which spreads well

_KEPT = 0.8
"""Share of L2 that holds what is read again; writes pass through it as well."""

_L1_BEYOND_SHARED = 28 << 10
"""Bytes of L1 and shared memory together, beyond the most that blocks may use of it.

CUDA C++ Programming Guide, "Compute Capabilities": 256 KB with 228 KB (9.0, 10.0), 192 with 164
(8.0), 128 with 100 (8.6, 8.9, 12.0).
"""


@dataclass(frozen=True, eq=False)
class Region:
    """What each of some programs touches with one access.

    Attributes:
        low, high: the bytes between which it lies, of shape [programs]; -1 where that is not known.
        size: bytes touched, each once; zero for programs that touch nothing.
        storage_bytes: of the tensor behind it, which it cannot exceed; 0 where not known.
        phase: accesses of one loop, or none, have the same; later ones a higher.
    """

    low: Array
    high: Array
    size: Array
    storage_bytes: int
    phase: int = 0


def unique_bytes(regions: Sequence[Region], scale: float = 1.0) -> float:
    """Distinct bytes of all regions together.

    Args:
        regions: of the same programs.
        scale: how many times as many programs there really are; they go on in the same way.
    """
    return sum(
        _capped(sizes, low, high, storage, first, programs, scale)
        for sizes, low, high, storage, first, programs in _by_storage(regions)
    )


def _by_storage(regions: Sequence[Region]) -> Any:
    groups: dict[int, list[Region]] = {}
    for number, region in enumerate(regions):
        place = int(region.low.max()) >> ADDRESS_BITS if region.low.max() >= 0 else -1 - number
        groups.setdefault(place, []).append(region)
    for group in groups.values():
        keys = _keys(group)
        sizes = np.concatenate([region.size for region in group])
        order = np.argsort(-sizes, kind="stable")  # of equal regions the largest counts
        _, chosen = np.unique(keys[order], return_index=True)
        first = order[chosen]
        programs = len(group[0].low)
        low = np.concatenate([region.low for region in group])[first]
        high = np.concatenate([region.high for region in group])[first]
        storage = max(region.storage_bytes for region in group)
        yield sizes[first], low, high, storage, first % programs, programs


def _capped(
    sizes: Array, low: Array, high: Array, storage: int, first: Array, programs: int, scale: float
) -> float:
    total = float(sizes.sum())
    known = (low >= 0) & (sizes > 0)
    if known.any():  # regions may overlap: no more than what lies between the ends of all
        first_sector, last_sector = low[known].min() // SECTOR, (high[known].max() - 1) // SECTOR
        total = min(total, float(last_sector - first_sector + 1) * SECTOR)
    late = float(sizes[first >= programs // 2].sum()) / max(float(sizes.sum()), 1.0)
    total *= 1 + 2 * late * (scale - 1)
    return min(total, storage) if storage else total


def _keys(regions: Sequence[Region]) -> Array:
    """A number for each region of each program, in their order; equal for equal regions."""
    low = np.concatenate([region.low for region in regions])
    high = np.concatenate([region.high for region in regions])
    unknown = low < 0
    low = np.where(unknown, -1 - np.arange(len(low)), low)
    with np.errstate(over="ignore"):
        pairs = low * _ODD + high  # equal pairs give equal numbers, others all but never
    _, keys = np.unique(pairs, return_inverse=True)
    found: Array = keys.reshape(-1)
    return found


def dram_bytes(
    regions: Sequence[Region], resident: int, device: Device, scale: float = 1.0
) -> float:
    """Bytes that DRAM delivers to an L2 that was cold.

    Args:
        regions: of what is read, of the same programs, in their order.
        resident: programs that run at once.
        device: whose L2.
        scale: as for `unique_bytes`.
    """
    if not regions:
        return 0.0
    programs = len(regions[0].low)
    keys = _keys(regions).reshape(len(regions), programs)
    sizes = np.stack([region.size for region in regions])
    summed = float(sizes.reshape(-1)[np.unique(keys, return_index=True)[1]].sum())
    overlap = unique_bytes(regions) / summed if summed else 0.0
    phases = sorted({region.phase for region in regions})
    of_phase = [[i for i, r in enumerate(regions) if r.phase == phase] for phase in phases]
    cache = _LeastRecentlyUsed(_KEPT * device.l2_bytes)
    before: dict[int, float] = {}
    middle = 0
    for start in range(0, programs, resident):
        if start <= programs // 2:
            before, middle = dict(cache.fetched), start
        for rows in of_phase:  # blocks side by side go through their loops at about the same time
            wave = keys[rows, start : start + resident].reshape(-1)
            found, first = np.unique(wave, return_index=True)
            of_wave = sizes[rows, start : start + resident].reshape(-1)[first] * overlap
            places = [_place(regions[rows[i]]) for i in (first // _width(wave, rows)).tolist()]
            cache.read(found.tolist(), of_wave.tolist(), places)
    share = programs / (programs - middle)
    return sum(_later(place, cache, before, share, scale, regions) for place in cache.fetched)


def _width(wave: Array, rows: Sequence[int]) -> int:
    return len(wave) // len(rows)


def _place(region: Region) -> int:
    """The number of the storage that a region lies in; -1 where that is not known."""
    return int(region.low.max()) >> ADDRESS_BITS if region.low.max() >= 0 else -1


def _later(
    place: int,
    cache: _LeastRecentlyUsed,
    before: dict[int, float],
    share: float,
    scale: float,
    regions: Sequence[Region],
) -> float:
    """What all programs fetch of a storage: they go on as they did last, but it has an end."""
    fetched = cache.fetched[place]
    total = fetched + (fetched - before.get(place, 0.0)) * share * (scale - 1)
    own = [region for region in regions if _place(region) == place]
    size = max(region.storage_bytes for region in own)
    once = unique_bytes(own)
    return min(total, size * max(fetched / once, 1.0)) if size and once else total


class _LeastRecentlyUsed:
    """A cache of whole regions."""

    def __init__(self, capacity: float) -> None:
        self.capacity = capacity
        self.kept: OrderedDict[int, float] = OrderedDict()
        self.held = 0.0
        self.fetched: dict[int, float] = {}

    def read(self, keys: Sequence[int], sizes: Sequence[float], places: Sequence[int]) -> None:
        """Read some regions, each of a storage, side by side; then make room."""
        for key, size, place in zip(keys, sizes, places, strict=True):
            if self.kept.pop(key, None) is None:
                self.fetched[place] = self.fetched.get(place, 0.0) + size
                self.held += size
            self.kept[key] = size
        while self.held > self.capacity and self.kept:
            self.held -= self.kept.popitem(last=False)[1]


def l2_read_bytes(
    through_l1: Sequence[tuple[Region, float]],
    together: float,
    past_l1: float,
    shared_bytes: int,
    occupancy: Occupancy,
    device: Device,
) -> float:
    """Bytes that L2 delivers to the SMs.

    Args:
        through_l1: regions of plain loads, and the bytes that they ask of L1 beyond hits within
            one execution.
        together: distinct bytes of the loads of one step, over the sum of each one's own.
        past_l1: bytes of asynchronous copies.
        shared_bytes: shared memory of a block.
        occupancy: of the launch.
        device: the target.
    """
    asked = sum(size for _, size in through_l1)
    if not through_l1 or not asked:
        return past_l1
    room = device.limits.shared_bytes + _L1_BEYOND_SHARED - occupancy.blocks_per_sm * shared_bytes
    own = sum(region.size for region, _ in through_l1)
    if float(np.mean(own)) * together * occupancy.blocks_per_sm > room:
        return past_l1 + asked
    regions = [region for region, _ in through_l1]
    again = sum(_seen(r, [e for e in regions if e.phase < r.phase]) for r in regions)
    total = float(sum(region.size.sum() for region in regions))
    return past_l1 + asked * together * (1 - float(again) / max(total, 1.0))


def _seen(region: Region, earlier: Sequence[Region]) -> float:
    """Bytes of a region that one of the earlier ones had, which may be shifted against it."""
    span = np.maximum(region.high - region.low, 1)
    most = np.zeros(len(span))
    for other in earlier:
        shared = np.minimum(region.high, other.high) - np.maximum(region.low, other.low)
        dense = np.minimum(other.size / np.maximum(other.high - other.low, 1), 1.0)
        equal = (region.low == other.low) & (region.high == other.high)
        part = np.where(equal, 1.0, dense * np.clip(shared / span, 0.0, 1.0))
        most = np.maximum(most, np.where((region.low < 0) | (other.low < 0), 0.0, part))
    return float((most * region.size).sum())
