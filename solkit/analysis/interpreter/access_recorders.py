"""Records that sinks of all languages keep: where accesses are made, and where atomics meet."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from solkit.analysis.common.atomic_contention import AtomicContention
from solkit.analysis.interpreter.coalescing import count_distinct
from solkit.analysis.interpreter.counters import Counters
from solkit.analysis.interpreter.values import Array


@dataclass
class Extent:
    """Extent of an access, for each program: from `low` to `high`, in bytes; -1 if not made."""

    low: Array
    high: Array
    last: Array

    @staticmethod
    def nowhere(programs: int) -> Extent:
        """Return the extent of programs that did not make it."""
        return Extent(*(np.full(programs, -1, np.int64) for _ in range(3)))

    def widen(self, low: Array, high: Array, executing: Array) -> Array:
        """Add an execution; returns which programs made it at another place than before."""
        moved: Array = executing & (low != self.last)
        self.last = np.where(executing, low, self.last)
        lowest = np.where(self.low < 0, low, np.minimum(self.low, low))
        self.low = np.where(executing, lowest, self.low)
        self.high = np.where(executing, np.maximum(self.high, high), self.high)
        return moved


class ExtentRecorder:
    """Notes how often and between which bytes each program makes each access.

    Keys of the counters: (access, name) with ``"made"``, executions, weighted by the share of its
    lanes that take part, and ``"moves"``, those at another place than the previous one.
    """

    def __init__(self, counters: Counters) -> None:
        self.counters = counters
        self.extents: dict[Any, Extent] = {}

    def note_execution(
        self,
        access: Any,
        share: Array,
        ends: tuple[Array, Array] | None = None,
        executing: Array | None = None,
    ) -> None:
        """Add an execution.

        Args:
            access: the access.
            share: of the lanes that take part.
            ends: first byte and end; ``None`` if unknown.
            executing: programs that make it; those with a share by default.
        """
        programs = (self.counters.programs,)
        self.counters.add((access, "made"), share)
        extent = self.extents.setdefault(access, Extent.nowhere(*programs))
        moves = share
        if ends is not None:
            low, high = (np.broadcast_to(end, programs) for end in ends)
            executing = np.broadcast_to(share > 0 if executing is None else executing, programs)
            moves = share * extent.widen(low, high, executing)
        self.counters.add((access, "moves"), moves)


class ContentionRecorder:
    """Notes which addresses the lanes of atomics meet at.

    Keys of the counters: (access, name) with ``"operations"`` and ``"warp_addresses"``, as in
    `solkit.core.Contention`.
    """

    def __init__(self, counters: Counters) -> None:
        self.counters = counters
        self.meetings: dict[Any, AtomicContention] = {}

    def of_access(self, access: Any, element_bytes: int, elements: int = 1) -> AtomicContention:
        """Return the record of an access, new if it has none."""
        return self.meetings.setdefault(access, AtomicContention(element_bytes, elements))

    def note_lanes(self, access: Any, element_bytes: int, elements: int, addresses: Array) -> None:
        """Add an execution.

        Args:
            access: the access.
            element_bytes: of one element.
            elements: that a lane accesses.
            addresses: of shape [programs, requests, lanes]; -1 for lanes that do not take part.
        """
        takes_part = addresses >= 0
        apart = count_distinct(np.sort(addresses, axis=-1)).sum(1)
        self.counters.add((access, "operations"), takes_part.sum((1, 2)) * elements)
        self.counters.add((access, "warp_addresses"), apart * elements)
        meetings = self.of_access(access, element_bytes, elements)
        meetings.add(addresses[takes_part], np.nonzero(takes_part)[0])
