"""Spread of atomics over addresses: from those of some blocks to those of the launch.

Notation: n of N blocks were followed. An address met c operations of k of those blocks; O
operations meet D addresses over the launch. How many meet at the busiest address is taken to be the
largest of

::

    O / D           the mean
    c               of one block alone (k = 1): nobody else is known to come here
    c N / n         where every followed block comes here (k = n)
    (c - 2 √c) N/n  where some do (1 < k < n); blocks that meet by chance (c small) count little
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from solkit.analysis.common.regions import SECTOR
from solkit.core import Contention

Array = np.ndarray[Any, np.dtype[Any]]

_HELD = 1 << 19
"""Operations that are held before equal ones are joined."""


@dataclass
class AtomicContention:
    """The addresses that followed blocks used for one atomic access, with multiplicities.

    Attributes:
        element_bytes: apart that addresses of one operation's elements are.
        elements: of one operation.
        is_assumed: whether some addresses were unknown.
    """

    element_bytes: int = 4
    elements: int = 1
    is_assumed: bool = False
    keys: Array = field(default_factory=lambda: np.zeros((2, 0), np.int64))
    counts: Array = field(default_factory=lambda: np.zeros(0, np.int64))
    waiting: list[tuple[Array, Array]] = field(default_factory=list)
    held: int = 0

    def add(self, addresses: Array, blocks: Array) -> None:
        """Add operations at these addresses by these blocks; both of one length."""
        if not len(addresses):  # no lane is active
            return
        self.waiting.append((addresses, blocks))
        self.held += len(addresses)
        if self.held > _HELD:
            self._join()

    def _join(self) -> None:
        if not self.waiting:
            return
        joined = np.concatenate([np.stack(pair).astype(np.int64) for pair in self.waiting], axis=1)
        ones = np.ones(joined.shape[1], np.int64)
        keys = np.concatenate([self.keys, joined], axis=1)
        counts = np.concatenate([self.counts, ones])
        order = np.lexsort(keys)
        keys, counts = keys[:, order], counts[order]
        starts = np.flatnonzero(np.r_[True, (keys[:, 1:] != keys[:, :-1]).any(0)])
        self.keys, self.counts = keys[:, starts], np.add.reduceat(counts, starts)
        self.waiting, self.held = [], 0

    @property
    def offsets(self) -> int:
        """Places within a sector that any operation goes to."""
        self._join()
        return len(np.unique(self.keys[0] % SECTOR))

    def by_place(self, grain_bytes: int) -> tuple[Array, Array]:
        """Return operations, and blocks that come there, for each place of so many bytes."""
        self._join()
        places = self.keys[0] // grain_bytes
        order = np.lexsort((self.keys[1], places))
        places, blocks = places[order], self.keys[1][order]
        starts = np.flatnonzero(np.r_[True, places[1:] != places[:-1]])
        first = np.r_[True, (places[1:] != places[:-1]) | (blocks[1:] != blocks[:-1])]
        return np.add.reduceat(self.counts[order], starts), np.add.reduceat(
            first.astype(np.int64), starts
        )


def contention_of(
    meetings: AtomicContention | None,
    operations: float,
    warp_addresses: float,
    unique_bytes: float,
    followed: int,
    blocks: int,
) -> Contention:
    """Return the contention of an access.

    Args:
        meetings: of the followed blocks; ``None`` or empty if no address is known.
        operations: over the launch.
        warp_addresses: likewise, distinct addresses of a request, summed.
        unique_bytes: distinct bytes of the launch, in whole sectors.
        followed: blocks that were followed lane by lane.
        blocks: of the launch.
    """
    size = meetings.element_bytes if meetings else 4
    if meetings is None or not (meetings.waiting or meetings.counts.size):
        addresses = max(min(operations, unique_bytes / size), 1.0)
        mean = operations / addresses
        in_sector = min(mean * max(SECTOR // size, 1), operations)
        return _rounded_contention(
            operations, warp_addresses, addresses, mean, in_sector, assumed=True
        )
    counts, comers = meetings.by_place(1)
    in_sectors, sector_comers = meetings.by_place(SECTOR)
    elements_per_operation = meetings.elements
    seen = float(counts.sum()) * elements_per_operation
    whole = followed >= blocks and seen >= 0.999 * operations
    addresses = float(len(counts)) * elements_per_operation
    if not whole:
        within = unique_bytes / SECTOR, meetings.offsets * elements_per_operation
        addresses = max(
            addresses, _expected_addresses(operations, addresses / len(in_sectors), *within)
        )
    addresses = max(min(addresses, operations), 1.0)
    sectors = max(unique_bytes / SECTOR, float(len(in_sectors))) if not whole else len(in_sectors)
    share = followed, blocks
    return _rounded_contention(
        operations,
        warp_addresses,
        addresses,
        min(
            max(operations / addresses, _busiest_place_operations(counts, comers, *share)),
            operations,
        ),
        min(
            max(
                operations / max(sectors, 1.0),
                elements_per_operation
                * _busiest_place_operations(in_sectors, sector_comers, *share),
            ),
            operations,
        ),
        assumed=meetings.is_assumed,
    )


def _expected_addresses(operations: float, seen: float, sectors: float, places: float) -> float:
    """Return distinct addresses in so many sectors.

    Args:
        operations: that go there.
        seen: addresses in each of the sectors that the followed blocks touch.
        sectors: of the launch.
        places: in a sector that any operation goes to. Where operations come by chance, few blocks
            fill few of them, and all blocks as many as if drawn at random (Cardenas, 1975).
    """
    if not sectors:
        return 0.0
    return sectors * max(seen, -places * math.expm1(-operations / (sectors * places)))


def _busiest_place_operations(counts: Array, comers: Array, followed: int, blocks: int) -> float:
    """Count operations at the busiest of the seen places, over the launch."""
    if followed >= blocks:
        return float(counts.max())
    scale = blocks / followed
    certain = np.where(comers == followed, counts, counts - 2 * np.sqrt(counts))
    expected = np.where((comers > 1) | (followed == 1), np.maximum(certain, 0) * scale, counts)
    return float(expected.max())


def _rounded_contention(
    operations: float,
    warp_addresses: float,
    addresses: float,
    busiest_address: float,
    busiest_sector: float,
    *,
    assumed: bool,
) -> Contention:
    return Contention(
        operations=round(operations),
        warp_addresses=round(warp_addresses),
        addresses=round(addresses),
        busiest_address=round(busiest_address),
        busiest_sector=round(max(busiest_sector, busiest_address)),
        is_assumed=assumed,
    )
