"""Bytes that DRAM has to move for a launch, for an L2 of any size: bytes by stack distance.

In an L2 of two partitions, a line that both sides read takes space twice.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from solkit.analysis.common.l2_traffic import Distances, Round, launch_rounds, step_shares
from solkit.analysis.common.regions import (
    Region,
    are_scattered,
    by_storage,
    distinct_bytes,
    numbers_of,
    region_keys,
    unique_bytes,
)
from solkit.core import Device, Reuse, Stream

Array = np.ndarray[Any, np.dtype[Any]]

_PARTITIONED = {(8, 0), (9, 0), (10, 0), (10, 3)}
"""Compute capabilities whose L2 has two partitions, each of which caches what the SMs next to it
access (NVIDIA A100 whitepaper, "A100 L2 cache"; H100 likewise, B200 and B300 by their two dies)."""

_COMPLETE = 0.9
"""Share of its sectors' bytes above which a store counts as writing whole sectors."""

_NEAREST, _OCTAVES = 18, 13
"""Ranges of stack distances: from 2^18 bytes, in so many octaves. Any L2 keeps what is nearer than
256 KiB and loses what is farther than 2 GiB: GPUs of compute capability 8.0 and above have 2 to
128 MiB."""

_BINS = 8
"""Ranges per octave. Within one, the share that is lost varies by up to 14 %; taking the mean
distance misplaces at most 0.5 % of the bytes."""

_READ, _WRITE = 0, 1


def reuse_of(
    regions: Sequence[Region],
    resident: int,
    device: Device,
    scale: float = 1.0,
    past_l1: Sequence[float] | None = None,
) -> Reuse:
    """Count bytes that cross between DRAM and L2, by how far apart their uses are.

    Args:
        regions: of all accesses, of the same programs, in their order.
        resident: programs that run at once.
        device: a target; only its compute capability matters.
        scale: programs of the launch over these; the others continue in the same way.
        past_l1: the share of each region's `size` that L1 does not have; all of it by default.
    """
    if not regions:
        return Reuse()
    programs = len(regions[0].low)
    regions = [_in_pairs(region) if region.reads else region for region in regions]
    ledger = _Ledger(regions, device, [1.0] * len(regions) if past_l1 is None else past_l1)
    waves = [
        np.arange(start, min(start + resident, programs)) for start in range(0, programs, resident)
    ]
    middle, before = 0, copy.deepcopy(ledger.books)
    for one_round in launch_rounds(regions, ledger.keys, waves):
        start = int(one_round.programs[0])
        if middle < start <= programs // 2:
            before, middle = copy.deepcopy(ledger.books), start
        ledger.book(one_round)
    share = programs / (programs - middle) * (scale - 1)
    reads, writes = (
        tuple(_streams_of_direction(ledger, before, direction, share, scale))
        for direction in (_READ, _WRITE)
    )
    return Reuse(reads, writes, tuple(_never_whole(regions, scale)))


def _in_pairs(region: Region) -> Region:
    """Return what L2 fetches for it: sectors in pairs of 64 bytes, within the region's ends.

    Source: ``cudaLimitMaxL2FetchGranularity``, which is 64 bytes unless a program asks for less.
    """
    ends = np.maximum(region.high - region.low, region.size)
    size = np.minimum(region.size * region.pairs, ends)
    moved = region.size + region.again
    return replace(region, size=size, moved=moved * region.pairs, once=region.once * region.pairs)


def _streams_of_direction(
    ledger: _Ledger, before: _Books, direction: int, share: float, scale: float
) -> Iterator[Stream]:
    """Yield one for each storage that moves in that direction.

    Args:
        ledger: of all programs that were followed.
        before: its books when the later ones of them began.
        direction: `_READ` or `_WRITE`.
        share: all further programs move so many times as much as those later ones.
        scale: as for `reuse_of`.
    """
    books = ledger.books
    for number, place in enumerate(ledger.places):
        cold, again = books.cold[direction, number], books.again[direction, number]
        (bins,) = np.nonzero(again[1:])  # what lies in the first is never lost
        bins += 1
        if not cold and not len(bins):
            continue
        further = (cold - before.cold[direction, number]) * share
        further_again = (again - before.again[direction, number])[bins] * share
        stream = Stream(
            round(cold + further),
            _rounded_amounts(books.weighted[direction, number, bins] / again[bins]),
            _rounded_amounts(again[bins] + further_again),
        )
        there = [region for region in ledger.regions if region.place == place]
        named = [region.argument for region in there if region.argument]
        if place >= 0 and named:
            stream = replace(stream, argument=named[0])
        own = [region for region in there if (region.reads, region.writes)[direction]]
        once, most = unique_bytes(own), _most_distinct_bytes(own, scale)
        if scale > 1 and once and most:
            stream = replace(
                stream,
                followed_cold_bytes=round(cold),
                followed_again_bytes=_rounded_amounts(again[bins]),
                distinct_bytes=round(once),
                most_bytes=round(most),
            )
        yield stream


def _rounded_amounts(amounts: Array) -> tuple[int, ...]:
    return tuple(np.rint(amounts).astype(np.int64).tolist())


def _most_distinct_bytes(regions: Sequence[Region], scale: float) -> float:
    """Return distinct bytes of a storage that all programs can touch; 0 if unknown."""
    if are_scattered(regions, scale):
        return unique_bytes(regions, scale)
    return max((region.storage_bytes for region in regions), default=0)


class _Books:
    """Bytes by direction and storage: those that always cross, and others by stack distance.

    Args:
        storages: how many there are.
    """

    def __init__(self, storages: int) -> None:
        self.cold = np.zeros((2, storages))
        self.again = np.zeros((2, storages, _OCTAVES * _BINS + 2))
        self.weighted = np.zeros_like(self.again)
        """Bytes times their distances."""

    def add_cold(self, direction: int, storages: Array, amounts: Array) -> None:
        """Add bytes that cross for any L2."""
        self.cold[direction] += np.bincount(storages, amounts, self.cold.shape[1])

    def add(self, direction: int, storages: Array, distances: Array, amounts: Array) -> None:
        """Add bytes [n] of storages [n], used again at distances [n, moments]."""
        octaves = np.log2(np.maximum(distances, 1.0)) - _NEAREST
        bins = np.clip(np.floor(_BINS * octaves) + 1, 0, self.again.shape[2] - 1).astype(np.int64)
        places = (storages[:, None] * self.again.shape[2] + bins).reshape(-1)
        shares = np.broadcast_to(amounts[:, None] / distances.shape[1], distances.shape)
        for table, summed in ((self.again, shares), (self.weighted, shares * distances)):
            flat = table[direction].reshape(-1)
            flat += np.bincount(places, summed.reshape(-1), len(flat))


class _Ledger:
    """Records what each round may move between L2 and DRAM."""

    def __init__(self, regions: Sequence[Region], device: Device, past_l1: Sequence[float]) -> None:
        self.regions = regions
        of_regions = [region.place for region in regions]
        self.places = list(dict.fromkeys(of_regions))
        self.storages = np.array([self.places.index(place) for place in of_regions])
        self.reads = np.array([region.reads for region in regions])
        self.writes = np.array([region.writes for region in regions])
        self.past_l1 = np.asarray(past_l1, float)
        self.refilled = np.array([r.writes and r.covered < _COMPLETE for r in regions])
        self.keys = region_keys(regions)
        thin = _overlap_shares(regions)[:, None]
        sizes = np.stack([region.size for region in regions])
        self.sizes = sizes * thin
        self.again = np.stack([region.again for region in regions]) * thin
        self.steps = step_shares(regions, sizes)
        self.partitioned = device.compute_capability in _PARTITIONED
        self.distances = Distances(int(self.keys.max()) + 1)
        self.dirty = np.zeros(int(self.keys.max()) + 1, bool)
        self.books = _Books(len(self.places))

    def book(self, one_round: Round) -> None:
        """Add a round."""
        size = one_round.chosen(self.sizes)
        readers, writers = one_round.summed(self.reads), one_round.summed(self.writes)
        reading, writing = readers > 0, writers > 0
        room = size * self._copies(readers)
        past, since = self.distances.use(one_round.keys, room)
        far = since[past]
        is_first = np.isinf(far[:, 0])
        far[is_first] = 0.0
        row = np.repeat(one_round.rows, len(one_round.programs))[one_round.first]
        asked_of_l2 = 1 - (1 - self.past_l1[row]) ** np.maximum(readers, 1)
        is_clean = ~self.dirty[one_round.keys]
        storages, books = self.storages[row], self.books
        # steps of a loop touch their data again at the distance of one step of all blocks
        step = np.full((len(row), 1), (room * one_round.chosen(self.steps)).sum())
        # nobody needs what was in DRAM before a store of it all; a load behind it finds that in L2
        is_fresh = self.writes[row] & ~self.reads[row] & ~self.refilled[row]
        is_cold = is_first & ~is_fresh
        books.add_cold(_READ, storages, size * (is_cold & reading))
        near = np.where(is_fresh[:, None], step, far)
        books.add(_READ, storages, near, size * asked_of_l2 * (~is_cold & reading))
        books.add_cold(_WRITE, storages, size * (is_clean & writing))
        books.add(_WRITE, storages, far, size * (~is_clean & writing))
        again, refilled = one_round.chosen(self.again), one_round.summed(self.refilled) > 0
        books.add(_READ, storages, step, again * (reading + 1.0 * refilled))
        books.add(_WRITE, storages, step, again * writing)
        self.dirty[one_round.keys] |= writing

    def _copies(self, readers: Array) -> Array:
        """Count the copies of a line in L2: at home, and on the other side if SMs there read it.

        A block is on either side with equal probability. That a line also stays at home is our
        interpretation; see docs/lab/analysis_reference.md.
        """
        if not self.partitioned:
            return np.ones(len(readers))
        copies: Array = 2 - 0.5 ** np.minimum(readers, 60)
        return np.where(readers > 0, copies, 1.0)


def _overlap_shares(regions: Sequence[Region]) -> Array:
    """Divide distinct bytes by the sum of unequal regions, which may overlap, for each region."""
    shares = np.ones(len(regions))
    numbers = {id(region): i for i, region in enumerate(regions)}
    for group in by_storage(regions):
        sizes = np.concatenate([region.size for region in group])
        _, first = np.unique(numbers_of(group), return_index=True)
        summed = float(sizes[first].sum())
        share = distinct_bytes(group, 1.0) / summed if summed else 1.0
        for region in group:
            shares[numbers[id(region)]] = share
    return shares


def _never_whole(regions: Sequence[Region], scale: float) -> Iterator[int]:
    """Yield bytes that are read to complete partly written sectors, for each storage.

    DRAM's error correction covers whole sectors (US patent 9,110,809, "Reducing memory traffic in
    DRAM ECC mode"). Sectors that L2 still holds at the end are not completed yet.
    """
    stores = [region for region in regions if region.kind == "store"]
    for group in by_storage(stores):
        once = distinct_bytes(group, scale)
        written = [r.covered * float((r.size + r.again).sum()) * scale for r in group]
        if sum(written) < _COMPLETE * once:
            yield round(once)
