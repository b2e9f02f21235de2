"""Distances between a kernel's uses of the same bytes, and uses that L1 absorbs.

Blocks start in the order of their numbers, as many at a time as fit (a wave). Those of a wave go
through their loops side by side: a *round* is one loop of one wave. What several blocks read in a
round is fetched once. Data from an earlier round is still cached unless the bytes used since (the
stack distance: Mattson et al., "Evaluation techniques for storage hierarchies", 1970) evicted it.
Written bytes take space, too.

Each SM has an L1, for plain loads (``cp.async`` of 16 bytes and TMA bypass it, PTX ISA
``cp.async.cg``); for L2 see `solkit.analysis.common.reuse`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from solkit.analysis.common.regions import Region, region_keys
from solkit.core import Device, Occupancy
from solkit.roofline.kernel.dram_traffic import lost_share

Array = np.ndarray[Any, np.dtype[Any]]

_L1_BEYOND_SHARED = 28 << 10
"""Bytes of L1 and shared memory together, beyond the most that blocks may use of it.

CUDA C++ Programming Guide, "Compute Capabilities": 256 KB with 228 KB (9.0, 10.0), 192 with 164
(8.0), 128 with 100 (8.6, 8.9, 12.0).
"""

_SMS = 3
"""SMs whose L1 is followed."""

_MOMENTS = (np.arange(4) + 0.5) / 4
"""Progress of the blocks of a round."""


class Distances:
    """Regions that are used in rounds, and how many bytes were used since their last use."""

    def __init__(self, regions: int) -> None:
        self.last = np.full(regions, -1)
        self.room = np.zeros(regions)
        self.held: list[float] = []  # bytes by the round that used them last

    def use(self, keys: Array, room: Array) -> tuple[Array, Array]:
        """Use some regions side by side.

        Args:
            keys: numbers of the regions, each once.
            room: bytes that each takes.

        Returns:
            Each region's row in a table; and the table [rows, moments]: bytes used since the last
            use, at each of `_MOMENTS`; infinite for first uses.
        """
        pasts, rows = np.unique(self.last[keys], return_inverse=True)
        rows = rows.reshape(-1)
        again = np.bincount(rows, self.room[keys], len(pasts))
        since = np.full((len(pasts), len(_MOMENTS)), np.inf)
        for row, past in enumerate(pasts.tolist()):
            if past < 0:
                continue
            # when a block is as far as it was then, all blocks have used the rest of that round,
            # everything since, and as much of this round
            alone = self.held[past] - again[row]
            new = float(room[self.last[keys] < past].sum())
            whole = sum(self.held[past + 1 :]) + again[row]
            since[row] = whole + (1 - _MOMENTS) * alone + _MOMENTS * new
        for row, past in enumerate(pasts.tolist()):
            if past >= 0:
                self.held[past] -= again[row]
        self.held.append(float(room.sum()))
        self.last[keys], self.room[keys] = len(self.held) - 1, room
        return rows, since


@dataclass(frozen=True, eq=False)
class Round:
    """Accesses that some programs make side by side, in one phase.

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
        """Sum a number per row, for each key, over the rows that touch the key."""
        terms = np.repeat(of_rows[self.rows], len(self.programs)).astype(float)
        sums: Array = np.bincount(self.inverse, terms, len(self.keys))
        return sums

    def chosen(self, table: Array) -> Array:
        """Take a table's entry [regions, programs], for each key, of the first that touches it."""
        entries: Array = table[np.ix_(self.rows, self.programs)].reshape(-1)[self.first]
        return entries


def launch_rounds(
    regions: Sequence[Region], keys: Array, waves: Sequence[Array]
) -> Iterator[Round]:
    """Yield the rounds of a launch, in order.

    Args:
        regions: of all accesses, of the same programs.
        keys: of the regions, [regions, programs], from `keys_of`.
        waves: the programs of each.
    """
    phases = sorted({region.phase for region in regions})
    of_phase = [
        np.array([i for i, r in enumerate(regions) if r.phase == phase]) for phase in phases
    ]
    for programs in waves:
        for rows in of_phase:
            flat = keys[np.ix_(rows, programs)].reshape(-1)
            touched, first, inverse = np.unique(flat, return_index=True, return_inverse=True)
            yield Round(rows, programs, touched, first, inverse.reshape(-1))


def step_shares(regions: Sequence[Region], sizes: Array) -> Array:
    """Return the share of each region that one execution touches."""
    once = np.array([region.once for region in regions])[:, None]
    shares: Array = np.where(once > 0, once, sizes) / np.maximum(sizes, 1.0)
    return np.minimum(shares, 1.0)


# ------------------------------------------------------------------------------------------ L1


@dataclass(frozen=True)
class Misses:
    """Shares of a region's bytes that L1 does not have.

    Attributes:
        moved: of all that its executions move, `Region.moved`.
        first: of what it touches for the first time in a round, `Region.size`. A loop that steps by
            less than a sector finds most of what it moves in L1, and none of this.
    """

    moved: float = 1.0
    first: float = 1.0


def l1_misses(
    regions: Sequence[Region],
    together: float,
    shared_bytes: int,
    occupancy: Occupancy,
    device: Device,
) -> list[Misses]:
    """Return the shares of each region's bytes that L1 does not have.

    Args:
        regions: of plain loads and stores, of the same programs; stores stay in L1, too.
        together: distinct bytes of the loads of one step, over the sum of each one's own.
        shared_bytes: shared memory of a block.
        occupancy: of the launch.
        device: the target.
    """
    if not regions:
        return []
    capacity = device.limits.l1_bytes
    if not capacity:
        capacity = device.limits.shared_bytes + _L1_BEYOND_SHARED
        capacity -= occupancy.blocks_per_sm * shared_bytes
    programs = len(regions[0].low)
    keys = region_keys(regions)
    sums = _Sums(len(regions))
    sms = min(device.sm_count, programs)
    for sm in range(0, sms, -(-sms // _SMS)):
        own, blocks = np.arange(sm, programs, device.sm_count), occupancy.blocks_per_sm
        waves = [own[start : start + blocks] for start in range(0, len(own), blocks)]
        distances = Distances(int(keys.max()) + 1)
        for one_round in launch_rounds(regions, keys, waves):
            _book_l1_misses(one_round, regions, distances, capacity, together, sums)
    return [Misses(*shares) for shares in zip(*sums.shares(), strict=True)]


class _Sums:
    """Bytes of each region, and of those the ones that missed: of all, and of first touches."""

    def __init__(self, regions: int) -> None:
        self.moved, self.missed, self.first, self.first_missed = np.zeros((4, regions))

    def shares(self) -> Iterator[list[float]]:
        """Yield the shares of all touches, and of first ones."""
        for missed, moved in ((self.missed, self.moved), (self.first_missed, self.first)):
            yield np.where(moved > 0, missed / np.maximum(moved, 1e-9), 1.0).tolist()


def _book_l1_misses(
    one_round: Round,
    regions: Sequence[Region],
    distances: Distances,
    capacity_bytes: int,
    together: float,
    sums: _Sums,
) -> None:
    """Add to each region's bytes, and to those that missed."""
    shape = (len(one_round.rows), len(one_round.programs))
    own = [regions[row] for row in one_round.rows.tolist()]
    sizes = np.stack([region.size[one_round.programs] for region in own])
    again = np.stack([region.again[one_round.programs] for region in own])
    shares = np.array([together if region.kind == "load" else 1.0 for region in own])[:, None]
    room = (sizes * shares).reshape(-1)[one_round.first]
    past, since = distances.use(one_round.keys, room)
    gone = lost_share(since, capacity_bytes).mean(axis=1)[past]
    step = (step_shares(own, sizes) * sizes * shares).reshape(-1)[one_round.first].sum()
    forgotten = float(lost_share(step, capacity_bytes))
    for i, row in enumerate(one_round.rows.tolist()):
        inverse = one_round.inverse.reshape(shape)[i]
        sharing = np.bincount(inverse, minlength=len(one_round.keys))[inverse]
        first_missed = sizes[i] * gone[inverse] / sharing
        sums.moved[row] += float((sizes[i] + again[i]).sum())
        sums.missed[row] += float((first_missed + again[i] * forgotten).sum())
        sums.first[row] += float(sizes[i].sum())
        sums.first_missed[row] += float(first_missed.sum())
