"""Which of a kernel's accesses L1 and L2 absorb.

What one program touches with one access of the code is a *region*: the bytes between the lowest and
the highest address, and how many of them. Equal regions are the same data.

Blocks start in the order of their numbers, as many at a time as fit (a wave), and those of a wave
go through their loops side by side: a *round* is one loop of one wave. What several blocks read in
a round is fetched once. What was used in an earlier round is still there unless the bytes that were
used since (Mattson et al., "Evaluation techniques for storage hierarchies", 1970: the stack
distance) pushed it out. Written bytes take room as well. Lines fall into sets by a hash of their
address, so that around the capacity some sets overflow and others do not (Smith, "A comparative
study of set associative memory mapping algorithms", 1978).

L1 is one SM's, for plain loads (``cp.async`` of 16 bytes and TMA go past it, PTX ISA
``cp.async.cg``), L2 the device's. In L2 of two partitions a line that both sides read takes room
twice.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from solkit.analysis.programs import ADDRESS_BITS
from solkit.core import Device, Occupancy

__all__ = ["SECTOR", "Region", "Traffic", "dram_bytes", "l1_misses", "unique_bytes"]

Array = np.ndarray[Any, np.dtype[Any]]

SECTOR = 32
"""Bytes; the unit of traffic between L1, L2 and DRAM."""

_ODD = np.int64(-7046029254386353131)  # 2**64 over the golden ratio, which spreads well

_WAYS = 16
"""Lines of a set, of L2 (Jia et al., "Dissecting the NVIDIA Volta GPU architecture via
microbenchmarking", 2018, section 3.4); L1 is taken to be no different."""

_PARTITIONED = {(8, 0), (9, 0), (10, 0), (10, 3)}
"""Compute capabilities whose L2 has two partitions, each of which caches what the SMs next to it
access (NVIDIA A100 whitepaper, "A100 L2 cache"; H100 likewise, B200 and B300 by their two dies)."""

_COMPLETE = 0.9
"""Share of the bytes of its sectors that a store must write for them to count as written whole."""

_L1_BEYOND_SHARED = 28 << 10
"""Bytes of L1 and shared memory together, beyond the most that blocks may use of it.

CUDA C++ Programming Guide, "Compute Capabilities": 256 KB with 228 KB (9.0, 10.0), 192 with 164
(8.0), 128 with 100 (8.6, 8.9, 12.0).
"""

_SMS = 3
"""SMs whose L1 is followed."""

_MOMENTS = (np.arange(4) + 0.5) / 4
"""Of a round: how far its blocks have come."""


@dataclass(frozen=True, eq=False)
class Region:
    """What each of some programs touches with one access.

    Attributes:
        low, high: the bytes between which it lies, of shape [programs]; -1 where that is not known.
        size: bytes touched, each once; zero for programs that touch nothing.
        storage_bytes: of the tensor behind it, which it cannot exceed; 0 where not known.
        phase: accesses of one loop, or none, have the same; later ones a higher.
        kind: ``"load"``, ``"store"`` or ``"atomic"``.
        moved: bytes touched, once by each execution that goes elsewhere than the one before, of
            shape [programs]; what exceeds `size` was touched before.
        once: bytes that an execution touches, where the next ones may touch them again; zero where
            all else is touched before they are, as in a loop within a loop.
        covered: share of the bytes of its sectors that an execution asks for.
        pairs: bytes of the 64-byte pairs of sectors that an execution touches, over `once`.
        gathered: whether the place comes from memory.
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

    @property
    def reads(self) -> bool:
        """Whether the old contents are needed."""
        return self.kind != "store"

    @property
    def writes(self) -> bool:
        """Whether there are new contents."""
        return self.kind != "load"

    @property
    def place(self) -> int:
        """The number of the storage that it lies in; -1 where that is not known."""
        return int(self.low.max()) >> ADDRESS_BITS if self.low.max() >= 0 else -1

    @property
    def again(self) -> Array:
        """Bytes that each program touches after having touched them before."""
        moved = self.size if self.moved is None else self.moved
        found: Array = np.maximum(moved - self.size, 0.0)
        return found


@dataclass(frozen=True)
class Traffic:
    """Bytes between two levels of the memory hierarchy."""

    read: float
    written: float


# ------------------------------------------------------------------------------ distinct bytes


def unique_bytes(regions: Sequence[Region], scale: float = 1.0) -> float:
    """Distinct bytes of all regions together.

    Args:
        regions: of the same programs.
        scale: how many times as many programs there really are; they go on in the same way.
    """
    return sum(_distinct(group, scale) for group in _by_storage(regions))


def _by_storage(regions: Sequence[Region]) -> Iterator[list[Region]]:
    groups: dict[int, list[Region]] = {}
    for number, region in enumerate(regions):
        groups.setdefault(region.place if region.place >= 0 else -1 - number, []).append(region)
    yield from groups.values()


def _distinct(group: Sequence[Region], scale: float) -> float:
    """Distinct bytes of the regions of one storage."""
    sizes = np.concatenate([region.size for region in group])
    order = np.argsort(-sizes, kind="stable")  # of equal regions the largest counts
    _, chosen = np.unique(_numbers(group)[order], return_index=True)
    first = order[chosen]
    programs = len(group[0].low)
    low = np.concatenate([region.low for region in group])[first]
    high = np.concatenate([region.high for region in group])[first]
    storage = max(region.storage_bytes for region in group)
    total = float(sizes[first].sum())
    late = float(sizes[first][first % programs >= programs // 2].sum()) / max(total, 1.0)
    known = (low >= 0) & (sizes[first] > 0)
    span = math.inf
    if known.any():  # regions may overlap: no more than what lies between the ends of all
        first_sector, last_sector = low[known].min() // SECTOR, (high[known].max() - 1) // SECTOR
        span = float(last_sector - first_sector + 1) * SECTOR
    grown = min(total, span) * (1 + 2 * late * (scale - 1))
    if math.isfinite(span) and all(_at_random(region, scale) for region in group):
        return min(grown, _scattered(float(sizes.sum()) * scale, min(span, storage or span)))
    return min(grown, storage) if storage else grown


def _at_random(region: Region, scale: float) -> bool:
    """Whether programs gather with repetitions, and regions do not tell which are the same."""
    if not region.gathered:
        return False
    made = region.size > 0
    exact = scale == 1.0 and bool(np.all(region.size >= region.high - region.low))
    return not exact and len(np.unique(region.low[made])) < int(made.sum())


def _scattered(touched: float, span: float) -> float:
    """Distinct bytes of those that are drawn from a span with replacement.

    Source: Cardenas, "Analysis and performance of inverted data base structures", 1975; of many.
    """
    return span * -math.expm1(-touched / span)


def _keys(regions: Sequence[Region]) -> Array:
    """As `_numbers`, counted from 0 on."""
    _, keys = np.unique(_numbers(regions), return_inverse=True)
    found: Array = keys.reshape(-1)
    return found


def _numbers(regions: Sequence[Region]) -> Array:
    """A number for each region of each program, in their order; equal for equal regions."""
    low = np.concatenate([region.low for region in regions])
    high = np.concatenate([region.high for region in regions])
    unknown = low < 0
    low = np.where(unknown, -1 - np.arange(len(low)), low)
    with np.errstate(over="ignore"):
        pairs: Array = low * _ODD + high  # equal pairs give equal numbers, others all but never
    return pairs


# ------------------------------------------------------------------------------------- a cache


class _Cache:
    """A cache of whole regions, which are used in rounds."""

    def __init__(self, capacity: float, regions: int) -> None:
        self.capacity = max(capacity, 1.0)
        self.last = np.full(regions, -1)
        self.room = np.zeros(regions)
        self.held: list[float] = []  # bytes by the round that used them last

    def use(self, keys: Array, room: Array) -> Array:
        """Use some regions side by side.

        Args:
            keys: numbers of the regions, each once.
            room: bytes that each takes.

        Returns:
            The share of each that was not there.
        """
        seen = self.last[keys]
        known = seen >= 0
        again = np.bincount(seen[known], self.room[keys][known], len(self.held) + 1)
        gone = np.ones(len(keys))
        for past in np.unique(seen[known]).tolist():
            # by the time that a block has come as far as it was then, it and the others have used
            # the rest of that round, all since, and as much of this one
            alone = self.held[past] - again[past]
            new = float(room[seen < past].sum())
            whole = sum(self.held[past + 1 :]) + again[past]
            since = whole + (1 - _MOMENTS) * alone + _MOMENTS * new
            gone[seen == past] = self.lost(since).mean()
        for past in np.unique(seen[known]).tolist():
            self.held[past] -= again[past]
        self.held.append(float(room.sum()))
        self.last[keys], self.room[keys] = len(self.held) - 1, room
        return gone

    def lost(self, since: Array) -> Array:
        """The share that is pushed out by some bytes used since.

        As many lines of them as a set has ways must fall into the set, where they are spread by
        chance: a Poisson distribution.
        """
        mean = np.minimum(_WAYS * np.asarray(since, float) / self.capacity, 500.0)
        term = np.exp(-mean)
        fewer = np.zeros_like(term)
        for lines in range(_WAYS):
            fewer += term
            term = term * mean / (lines + 1)
        share: Array = np.clip(1 - fewer, 0.0, 1.0)
        return share


@dataclass(frozen=True, eq=False)
class _Round:
    """What some programs do side by side, in one phase.

    Attributes:
        rows: which regions.
        programs: which programs.
        keys: of the regions touched, each once.
        first: where among [rows, programs] each comes first.
        inverse: which of the keys stands where.
    """

    rows: Array
    programs: Array
    keys: Array
    first: Array
    inverse: Array

    def summed(self, of_rows: Array) -> Array:
        """By key, the sum over those that touch it of a number that each row has."""
        each = np.repeat(of_rows[self.rows], len(self.programs)).astype(float)
        found: Array = np.bincount(self.inverse, each, len(self.keys))
        return found

    def chosen(self, table: Array) -> Array:
        """By key, what a table [regions, programs] has for the first that touches it."""
        found: Array = table[np.ix_(self.rows, self.programs)].reshape(-1)[self.first]
        return found


def _rounds(regions: Sequence[Region], keys: Array, waves: Sequence[Array]) -> Iterator[_Round]:
    phases = sorted({region.phase for region in regions})
    of_phase = [
        np.array([i for i, r in enumerate(regions) if r.phase == phase]) for phase in phases
    ]
    for programs in waves:
        for rows in of_phase:
            flat = keys[np.ix_(rows, programs)].reshape(-1)
            found, first, inverse = np.unique(flat, return_index=True, return_inverse=True)
            yield _Round(rows, programs, found, first, inverse.reshape(-1))


def _steps(regions: Sequence[Region], sizes: Array) -> Array:
    """Of each region, the share that one execution touches."""
    once = np.array([region.once for region in regions])[:, None]
    shares: Array = np.where(once > 0, once, sizes) / np.maximum(sizes, 1.0)
    return np.minimum(shares, 1.0)


# ---------------------------------------------------------------------------------------- DRAM


def dram_bytes(
    regions: Sequence[Region],
    resident: int,
    device: Device,
    scale: float = 1.0,
    past_l1: Sequence[float] | None = None,
) -> Traffic:
    """Bytes between DRAM and an L2 that was cold; what L2 holds at the end is written as well.

    Args:
        regions: of all accesses, of the same programs, in their order.
        resident: programs that run at once.
        device: whose L2.
        scale: as for `unique_bytes`.
        past_l1: of each region, the share that L1 does not have; all of it by default.
    """
    if not regions:
        return Traffic(0.0, 0.0)
    programs = len(regions[0].low)
    regions = [_in_pairs(region) if region.reads else region for region in regions]
    ledger = _Ledger(regions, device, [1.0] * len(regions) if past_l1 is None else past_l1)
    waves = [
        np.arange(start, min(start + resident, programs)) for start in range(0, programs, resident)
    ]
    middle = 0
    before = ledger.copy()
    for each in _rounds(regions, ledger.keys, waves):
        start = int(each.programs[0])
        if middle < start <= programs // 2:
            before, middle = ledger.copy(), start
        ledger.book(each)
    share = programs / (programs - middle) * (scale - 1)
    read, written = (
        sum(
            _later(
                total,
                then.get(place, 0.0),
                share,
                [r for r in regions if wanted(r) and r.place == place],
                scale,
            )
            for place, total in now.items()
        )
        for now, then, wanted in zip(
            (ledger.read, ledger.written), before, (_is_read, _is_written), strict=True
        )
    )
    return Traffic(read + _never_whole(regions, device, scale), written)


def _in_pairs(region: Region) -> Region:
    """What L2 fetches for it: sectors in pairs of 64 bytes, within the region's ends.

    Source: ``cudaLimitMaxL2FetchGranularity``, which is 64 bytes unless a program asks for less.
    """
    ends = np.maximum(region.high - region.low, region.size)
    size = np.minimum(region.size * region.pairs, ends)
    moved = region.size + region.again
    return replace(region, size=size, moved=moved * region.pairs, once=region.once * region.pairs)


def _is_read(region: Region) -> bool:
    return region.reads


def _is_written(region: Region) -> bool:
    return region.writes


def _later(
    total: float, before: float, share: float, regions: Sequence[Region], scale: float
) -> float:
    """What all programs move of a storage: they go on as they did last, but it has an end."""
    grown = total + (total - before) * share
    once = unique_bytes(regions)
    if not once:
        return grown
    repeated = max(total / once, 1.0)
    if all(_at_random(region, scale) for region in regions):
        return min(grown, unique_bytes(regions, scale) * repeated)
    size = max(region.storage_bytes for region in regions)
    return min(grown, size * repeated) if size else grown


class _Ledger:
    """Books what each round moves between L2 and DRAM, by storage."""

    def __init__(self, regions: Sequence[Region], device: Device, past_l1: Sequence[float]) -> None:
        self.places = np.array([region.place for region in regions])
        self.reads = np.array([region.reads for region in regions])
        self.writes = np.array([region.writes for region in regions])
        self.past_l1 = np.asarray(past_l1, float)
        self.refilled = np.array([r.writes and r.covered < _COMPLETE for r in regions])
        programs = len(regions[0].low)
        self.keys = _keys(regions).reshape(len(regions), programs)
        thin = _thinned(regions)[:, None]
        sizes = np.stack([region.size for region in regions])
        self.sizes = sizes * thin
        self.again = np.stack([region.again for region in regions]) * thin
        self.steps = _steps(regions, sizes)
        self.partitioned = device.compute_capability in _PARTITIONED
        self.cache = _Cache(device.l2_bytes, int(self.keys.max()) + 1)
        self.dirty = np.zeros(int(self.keys.max()) + 1, bool)
        self.read: dict[int, float] = {}
        self.written: dict[int, float] = {}

    def copy(self) -> tuple[dict[int, float], dict[int, float]]:
        """What was read and written so far."""
        return dict(self.read), dict(self.written)

    def book(self, each: _Round) -> None:
        """Add a round."""
        size = each.chosen(self.sizes)
        readers, writers = each.summed(self.reads), each.summed(self.writes)
        room = size * self._copies(readers)
        gone = self.cache.use(each.keys, room)
        forgotten = float(self.cache.lost(np.array((room * each.chosen(self.steps)).sum())))
        again = each.chosen(self.again) * forgotten
        row = np.repeat(each.rows, len(each.programs))[each.first]
        asked_of_l2 = 1 - (1 - self.past_l1[row]) ** np.maximum(readers, 1)
        fetched = size * np.where(gone < 1, gone * asked_of_l2, 1.0) + again
        refilled = again * (each.summed(self.refilled) > 0)
        cleaned = size * np.where(self.dirty[each.keys], gone, 1.0) + again
        self._add(self.read, row, fetched * (readers > 0) + refilled)
        self._add(self.written, row, cleaned * (writers > 0))
        self.dirty[each.keys] |= writers > 0

    def _copies(self, readers: Array) -> Array:
        """How often L2 holds a line: where it is at home, and where SMs of the other side read it.

        A block is on either side of the device alike. That a line stays at home as well is not
        documented; see docs/analysis.md.
        """
        if not self.partitioned:
            return np.ones(len(readers))
        copies: Array = 2 - 0.5 ** np.minimum(readers, 60)
        return np.where(readers > 0, copies, 1.0)

    def _add(self, book: dict[int, float], row: Array, amounts: Array) -> None:
        for place in np.unique(self.places[row]).tolist():
            book[place] = book.get(place, 0.0) + float(amounts[self.places[row] == place].sum())


def _thinned(regions: Sequence[Region]) -> Array:
    """Of each region, distinct bytes over the bytes of regions that are not equal: they overlap."""
    shares = np.ones(len(regions))
    numbers = {id(region): i for i, region in enumerate(regions)}
    for group in _by_storage(regions):
        sizes = np.concatenate([region.size for region in group])
        _, first = np.unique(_numbers(group), return_index=True)
        summed = float(sizes[first].sum())
        share = _distinct(group, 1.0) / summed if summed else 1.0
        for region in group:
            shares[numbers[id(region)]] = share
    return shares


def _never_whole(regions: Sequence[Region], device: Device, scale: float) -> float:
    """Bytes that are read to complete sectors which stores leave in part as they were.

    DRAM's error correction is over whole sectors (US patent 9,110,809, "Reducing memory traffic in
    DRAM ECC mode"). Those that L2 still holds at the end are not completed yet.
    """
    stores = [region for region in regions if region.kind == "store"]
    total = 0.0
    for group in _by_storage(stores):
        once = _distinct(group, scale)
        written = [r.covered * float((r.size + r.again).sum()) * scale for r in group]
        if sum(written) < _COMPLETE * once:
            total += max(once - device.l2_bytes, 0.0)
    return total


# ------------------------------------------------------------------------------------------ L1


def l1_misses(
    regions: Sequence[Region],
    together: float,
    shared_bytes: int,
    occupancy: Occupancy,
    device: Device,
) -> list[float]:
    """Of each region, the share of the bytes moved that L1 does not have.

    Args:
        regions: of plain loads and stores, of the same programs; stores pass through L1 and stay.
        together: distinct bytes of the loads of one step, over the sum of each one's own.
        shared_bytes: shared memory of a block.
        occupancy: of the launch.
        device: the target.
    """
    if not regions:
        return []
    capacity = device.limits.shared_bytes + _L1_BEYOND_SHARED
    capacity -= occupancy.blocks_per_sm * shared_bytes
    programs = len(regions[0].low)
    keys = _keys(regions).reshape(len(regions), programs)
    moved, missed = np.zeros(len(regions)), np.zeros(len(regions))
    sms = min(device.sm_count, programs)
    for sm in range(0, sms, -(-sms // _SMS)):
        waves = _of_sm(sm, programs, occupancy.blocks_per_sm, device.sm_count)
        cache = _Cache(capacity, int(keys.max()) + 1)
        for each in _rounds(regions, keys, waves):
            _book_l1(each, regions, cache, together, moved, missed)
    shares: list[float] = np.where(moved > 0, missed / np.maximum(moved, 1e-9), 1.0).tolist()
    return shares


def _of_sm(sm: int, programs: int, blocks: int, sms: int) -> list[Array]:
    """The programs of one SM, wave by wave."""
    own = np.arange(sm, programs, sms)
    return [own[start : start + blocks] for start in range(0, len(own), blocks)]


def _book_l1(
    each: _Round,
    regions: Sequence[Region],
    cache: _Cache,
    together: float,
    moved: Array,
    missed: Array,
) -> None:
    """Add to each region's bytes, and to those that were not there."""
    shape = (len(each.rows), len(each.programs))
    own = [regions[row] for row in each.rows.tolist()]
    sizes = np.stack([region.size[each.programs] for region in own])
    again = np.stack([region.again[each.programs] for region in own])
    shares = np.array([together if region.kind == "load" else 1.0 for region in own])[:, None]
    room = (sizes * shares).reshape(-1)[each.first]
    gone = cache.use(each.keys, room)
    step = (_steps(own, sizes) * sizes * shares).reshape(-1)[each.first].sum()
    forgotten = float(cache.lost(np.array(step)))
    for i, row in enumerate(each.rows.tolist()):
        inverse = each.inverse.reshape(shape)[i]
        sharing = np.bincount(inverse, minlength=len(each.keys))[inverse]
        moved[row] += float((sizes[i] + again[i]).sum())
        missed[row] += float((sizes[i] * gone[inverse] / sharing + again[i] * forgotten).sum())
