"""Traffic of a launch, from its counted accesses, for Triton and CUDA C++ alike.

A few programs (thread blocks) are followed in full and many in part. The few say how much one
execution of an access costs, the many how often and where it is made.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from solkit.analysis.common.access_modifiers import AccessModifiers
from solkit.analysis.common.atomic_contention import AtomicContention, contention_of
from solkit.analysis.common.l2_traffic import Misses, l1_misses
from solkit.analysis.common.regions import SECTOR, Region, unique_bytes
from solkit.analysis.common.reuse import reuse_of
from solkit.analysis.interpreter.values import Array
from solkit.core import Access, Contention, Device, Occupancy, Reuse

TOTALS = (
    *("requests", "sectors", "lines", "bytes", "distinct", "paired"),
    *("operations", "warp_addresses"),
)
"""Amounts that are counted of an access; see `AccessCounts.totals`."""


@dataclass(frozen=True, kw_only=True, eq=False)
class AccessCounts:
    """One access of the code: its totals over the launch, and where the first programs make it.

    Attributes:
        kind, path, argument, line, vector_bytes: as in `solkit.core.Access`.
        phase, storage_bytes, gathered: as in `Region`.
        depth: loops around it.
        scale: programs of the launch over the first ones.
        executions: how often it is made.
        totals: ``"requests"``, ``"sectors"``, ``"lines"`` (128 bytes, each request), ``"bytes"``,
            ``"distinct"`` (sectors, once an execution) and ``"paired"`` (with their neighbours in
            64 bytes); and of atomics ``"operations"`` and ``"warp_addresses"``, as in
            `solkit.core.Contention`.
        low, high: between which bytes each of the first programs makes it; -1 if unknown.
        per_program, moves: how often each does so, and how often at another place than before.
        moved: bytes that each touches, once for each of those.
        fresh: share of them that it has not touched before.
        modifiers: of the instruction that makes it.
        meetings: of an atomic, where the few that were followed make it; ``None`` if unknown.
        followed: how many those are.
        outside_bytes: as in `solkit.core.Access`.
    """

    kind: str
    path: str
    argument: str
    line: str
    vector_bytes: int
    phase: int
    storage_bytes: int
    gathered: bool
    depth: int
    scale: float
    executions: float
    totals: Mapping[str, float]
    low: Array
    high: Array
    per_program: Array
    moves: Array
    moved: Array
    modifiers: AccessModifiers
    fresh: float = 1.0
    meetings: AtomicContention | None = None
    followed: int = 1
    outside_bytes: int = 0

    @property
    def once(self) -> float:
        """Bytes that one execution touches."""
        return SECTOR * self.totals["distinct"] / self.executions if self.executions else 0.0

    @property
    def is_looped(self) -> bool:
        """True if it is inside a loop."""
        return self.phase % 2 == 1

    @cached_property
    def region(self) -> Region:
        """Region that each of the first programs touches."""
        between = np.where(self.low < 0, np.inf, self.high - self.low + SECTOR)
        distinct, paired = self.totals["distinct"], self.totals["paired"]
        return Region(
            low=self.low,
            high=self.high,
            size=np.minimum(self.moved * self.fresh, between),
            storage_bytes=self.storage_bytes,
            phase=self.phase,
            kind=self.kind,
            moved=self.moved,
            once=self.once if self.depth < 2 else 0.0,
            covered=min(self.totals["bytes"] / (SECTOR * distinct), 1.0) if distinct else 1.0,
            pairs=paired / distinct if paired else 1.0,
            gathered=self.gathered,
            argument=self.argument,
        )

    @cached_property
    def access(self) -> Access:
        """The public noun."""
        unique = unique_bytes([self.region], self.scale)
        return Access(
            kind=self.kind,
            path=self.path,
            argument=self.argument,
            line=self.line,
            requests=round(self.totals["requests"]),
            sectors=round(self.totals["sectors"]),
            block_sectors=round(self.totals["distinct"]),
            requested_bytes=round(self.totals["bytes"]),
            unique_bytes=round(unique),
            vector_bytes=self.vector_bytes,
            contention=self._contention(unique) if self.kind == "atomic" else None,
            outside_bytes=self.outside_bytes,
            **vars(self.modifiers),
        )

    def _contention(self, unique: float) -> Contention:
        operations, apart = self.totals["operations"], self.totals["warp_addresses"]
        blocks = round(self.scale * len(self.low))
        return contention_of(self.meetings, operations, apart, unique, self.followed, blocks)

    def l2_read_bytes(self, together: float, missed: Misses | None) -> float:
        """Count bytes from L2 to the SMs.

        Args:
            together: distinct bytes of the loads of one step, over the sum of each one's own.
            missed: the shares that L1 does not have; ``None`` for what bypasses L1.
        """
        if self.kind != "load":
            return 0.0
        if missed is None:  # PTX ISA, cp.async: copies of less than 16 bytes go through L1
            narrow = self.path == "async" and self.vector_bytes < 16
            return SECTOR * float(self.access.block_sectors if narrow else self.access.sectors)
        executions = self.per_program.sum()
        moving = (
            float(np.minimum(self.moves, self.per_program).sum() / executions)
            if executions
            else 1.0
        )
        beyond_hits = min(moving * self.executions * self.once, float(self.access.sector_bytes))
        return beyond_hits * together * missed.moved


def launch_traffic(
    sites: Sequence[AccessCounts],
    together: float,
    shared_bytes: int,
    occupancy: Occupancy,
    device: Device,
) -> tuple[float, Reuse]:
    """Return bytes from L2 to the SMs; and what DRAM moves for an L2 of any size.

    Args:
        sites: all of a launch.
        together: as for `AccessCounts.l2_read_bytes`.
        shared_bytes: shared memory of a block.
        occupancy: of the launch.
        device: the target.
    """
    cached = [
        site.region for site in sites if site.path in ("global", "staged") and site.kind != "atomic"
    ]
    shares = l1_misses(cached, together, shared_bytes, occupancy, device)
    missed = dict(zip(cached, shares, strict=True))
    reuse = reuse_of(
        [site.region for site in sites],
        occupancy.blocks_per_sm * device.sm_count,
        device,
        sites[0].scale if sites else 1.0,
        [missed.get(site.region, Misses()).first for site in sites],
    )
    return sum(site.l2_read_bytes(together, missed.get(site.region)) for site in sites), reuse


# ---------------------------------------------------------------------------------- steps


def longest_loads(loads: Iterable[tuple[int, Array]], programs: int) -> Array:
    """Sum executions of each program's most frequent load over successive loops.

    Args:
        loads: of each load its phase, and how often each program makes it.
        programs: how many there are.
    """
    phases: dict[int, list[Array]] = {}
    for phase, executions in loads:
        phases.setdefault(phase, []).append(executions)
    steps: Array = sum((np.max(runs, axis=0) for runs in phases.values()), np.zeros(programs))
    return steps


def unevenness(
    steps: Array, programs: int, device: Device, mean_steps: float | None = None
) -> float:
    """Return steps of the busiest SM over the mean; see `Requests.unevenness`.

    Programs that were not followed are like those that were, on average, and the last round is as
    long as the longest.

    Args:
        steps: of the programs that were followed.
        programs: of the launch.
        device: the target.
        mean_steps: of all programs, each at least 1; that of the followed ones by default.
    """
    lengths = np.maximum(steps, 1.0)
    mean = float(lengths.mean()) if mean_steps is None else mean_steps
    if programs > len(steps):
        rounds = math.ceil(programs / device.sm_count)
        longest = float(lengths.max()) / mean
        return (rounds - 1 + longest) * device.sm_count / programs
    busy = [0.0] * device.sm_count
    for length in lengths.tolist():
        heapq.heapreplace(busy, busy[0] + length)
    return max(busy) * device.sm_count / float(lengths.sum())
