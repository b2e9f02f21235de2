"""Count what the accesses of followed threads touch: requests, sectors, bytes, wavefronts.

Instructions of one source line that do the same, such as those of an unrolled loop, are one *site*.
What a block's threads access there in one run of a basic block is one execution.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from solkit.analysis.common.access_modifiers import AccessModifiers
from solkit.analysis.common.regions import SECTOR
from solkit.analysis.interpreter.access_recorders import ContentionRecorder, ExtentRecorder
from solkit.analysis.interpreter.coalescing import LINE_SECTORS, TouchedSectors, distinct_together
from solkit.analysis.interpreter.control_flow import BasicBlock, ControlFlow, Instruction
from solkit.analysis.interpreter.counters import Counters
from solkit.analysis.interpreter.front_end import FrontEnd
from solkit.analysis.interpreter.thread_groups import Active
from solkit.analysis.interpreter.values import ODD, Array
from solkit.analysis.triton.bank_conflicts import wavefronts

_WARP = 32
_REMEMBERED = 1 << 18
"""Sectors of a site that are remembered as touched; of two in one slot, the later one."""
_NOWHERE = 1 << 62
"""Address of lanes without an access."""
_LINE_BYTES = SECTOR * LINE_SECTORS
_MOST_PATTERNS = 1 << 12


@dataclass(frozen=True)
class Site:
    """One kind of access of global memory by one line.

    Attributes:
        kind, path, line, width_bytes: as in `solkit.core.Access`.
        phase: as in `ControlFlow.phase`.
        depth: loops around it.
        parameters: that its addresses are computed from, and global variables.
        gathered: whether its addresses depend on loaded values.
        by_thread: whether its addresses may differ between the threads of a block.
        element_bytes: of an element.
        modifiers: of the instruction that makes it.
    """

    kind: str
    path: str
    line: str
    width_bytes: int
    phase: int
    depth: int
    parameters: tuple[str, ...]
    gathered: bool
    by_thread: bool
    element_bytes: int
    modifiers: AccessModifiers

    @property
    def plain(self) -> bool:
        """True if it is a load through L1."""
        return self.kind == "load" and self.path == "global"


@dataclass(frozen=True)
class SharedSite:
    """One kind of access of shared memory by one line, as in `solkit.core.SharedAccess`."""

    kind: str
    line: str


def sites_of(
    flow: ControlFlow, is_of_thread: Callable[[str], bool] = lambda _: True
) -> dict[Instruction, Site]:
    """Return the site of each instruction that may access global memory.

    Args:
        flow: the code.
        is_of_thread: as in `FrontEnd`.
    """
    sites: dict[Instruction, Site] = {}
    for block in flow.blocks:
        for instruction in block.instructions:
            use = instruction.memory
            if use is None or not use.is_global:
                continue
            behind = flow.depends_on(use.registers)
            gathered = any(
                loading.loads == "memory" and not behind.isdisjoint(loading.written)
                for loading in flow.instructions
            )
            sites[instruction] = Site(
                kind=use.kind,
                path=use.path,
                line=instruction.line,
                width_bytes=use.width_bytes,
                phase=flow.phase(block),
                depth=len(block.loops),
                parameters=pointers_behind(flow, use.registers),
                gathered=gathered,
                by_thread=any(map(is_of_thread, behind)) or _is_made_by_thread(flow, behind),
                element_bytes=use.element_bytes,
                modifiers=use.modifiers,
            )
    return sites


def _is_made_by_thread(flow: ControlFlow, registers: frozenset[str]) -> bool:
    """Tell whether an atomic, or memory of a thread's own, gives one of some registers."""
    loading = (
        i.memory
        for i in flow.instructions
        if i.loads == "memory" and not registers.isdisjoint(i.written)
    )
    return any(use is not None and (use.kind == "atomic" or not use.is_global) for use in loading)


def pointers_behind(flow: ControlFlow, registers: Iterable[str]) -> tuple[str, ...]:
    """Return the pointers of the kernel that some registers are computed from."""
    behind = flow.depends_on(registers, loads=False)
    pointers: dict[str, None] = {}
    for instruction in flow.instructions:
        if not behind.isdisjoint(instruction.written):
            pointers |= dict.fromkeys(instruction.pointers)
    return tuple(pointers)


# ------------------------------------------------------------------------------------- every lane


class Lanes:
    """Counts every lane of every access of the followed blocks.

    Keys of the counters: (site, name) with the names of
    `solkit.analysis.interpreter.access_counts.TOTALS`, ``"fresh"`` (distinct sectors not touched
    before), ``"made"`` and ``"moves"`` (as in `Spots`);
    (shared site, name) with ``"requests"``, ``"wavefronts"``, ``"least"``; (name, block's number)
    with ``"runs"``, ``"warps"``, ``"lanes"``; and, for the plain loads of a block of code,
    ``"apart"`` and ``"together"``.
    """

    def __init__(
        self,
        front_end: FrontEnd,
        sites: Mapping[Instruction, Site],
        counters: Counters,
        threads: int,
    ) -> None:
        self.front_end = front_end
        self.sites = sites
        self.counters = counters
        self.spots = Spots(sites, counters, threads)
        self.pending: dict[Site, list[tuple[Array | None, Active]]] = {}
        self.shared: list[tuple[Instruction, Array | None, Active]] = []
        self.known: dict[Any, Array] = {}
        self.patterns: dict[Any, TouchedSectors] = {}
        self.joint: dict[Any, Array] = {}
        self.kept: list[TouchedSectors] = []
        self.touched: dict[Site, Array] = {}
        self.uncounted: dict[str, int] = {}
        self.contention = ContentionRecorder(counters)

    def access(
        self, instruction: Instruction, space: str, addresses: Array | None, active: Active
    ) -> None:
        """See `solkit.analysis.interpreter.thread_groups.AccessSink`."""
        if space == "shared":
            self.shared.append((instruction, addresses, active))
            return
        self.spots.access(instruction, space, addresses, active)
        self.pending.setdefault(self.sites[instruction], []).append((addresses, active))

    def block_ends(self, block: BasicBlock, active: Active) -> None:
        """See `solkit.analysis.interpreter.thread_groups.AccessSink`."""
        self.spots.block_ends(block, active)
        self.counters.add(("warps", block.number), active.warps)
        loads = [
            touched
            for site, pieces in self.pending.items()
            if (touched := self._site(site, pieces)) is not None and site.plain
        ]
        if loads:
            self.counters.add(("apart",), sum(pattern.distinct for pattern, _ in loads))
            self.counters.add(("together",), self._together(loads))
        if self.shared:
            self._shared()
        self.pending, self.shared = {}, []

    def _add(self, site: Site, name: str, amount: Array | float) -> None:
        self.counters.add((site, name), amount)

    def _site(
        self, site: Site, pieces: Iterable[tuple[Array | None, Active]]
    ) -> tuple[TouchedSectors, Array] | None:
        """Count an execution; returns the sectors that it touches, and each block's first."""
        lanes: list[Array] = []
        for addresses, active in pieces:
            self._add(site, "requests", active.warps)
            self._add(site, "bytes", active.lanes * site.width_bytes)
            if site.kind == "atomic":
                self._met(site, addresses, active)
            if addresses is None:
                self._unknown(site, active)
            else:
                lanes.append(np.where(active.mask, addresses, _NOWHERE))
        if not lanes:
            return None
        base = np.min([lane.min(1) for lane in lanes], axis=0) // _LINE_BYTES * _LINE_BYTES
        base = np.where(base < _NOWHERE // 2, base, 0)
        pattern = self._pattern(_stacked(lanes) - base[:, None])
        for name in ("sectors", "lines", "distinct", "paired"):
            self._add(site, name, getattr(pattern, name))
        self._add(site, "fresh", self._fresh(site, pattern, base // SECTOR))
        return pattern, base // SECTOR

    def _met(self, site: Site, addresses: Array | None, active: Active) -> None:
        """Note where the lanes of an atomic meet."""
        elements = max(site.width_bytes // site.element_bytes, 1)
        if addresses is None:
            self.contention.of_access(site, site.element_bytes, elements).is_assumed = True
            self._add(site, "operations", active.lanes * elements)
            whole = max(map(self.front_end.pointer_bytes, site.parameters), default=0)
            warps = np.maximum(active.warps, 1)
            apart = warps * _expected_distinct_places(
                active.lanes / warps, whole / site.width_bytes
            )
            self._add(site, "warp_addresses", apart * elements)
            return
        at = np.where(active.mask, addresses, -1)
        lanes = np.pad(at, ((0, 0), (0, -at.shape[1] % _WARP)), constant_values=-1)
        lanes = lanes.reshape(len(lanes), -1, _WARP)
        self.contention.note_lanes(site, site.element_bytes, elements, lanes)

    def _pattern(self, lanes: Array) -> TouchedSectors:
        """Return what pieces [piece, block, thread] touch, relative to each block's first line."""
        if bool((lanes == lanes[:, :1]).all()):
            lanes = lanes[:, :1]
        key = (lanes.shape, lanes.tobytes())
        pattern = self.patterns.get(key)
        if pattern is None:
            if len(self.patterns) > _MOST_PATTERNS:
                self.patterns.clear()
            pattern = self.patterns[key] = _touched_by(lanes)
        return pattern

    def _together(self, loads: Sequence[tuple[TouchedSectors, Array]]) -> Array:
        """Return distinct sectors of several loads."""
        blocks = self.counters.programs
        if len(loads) == 1:
            return np.broadcast_to(loads[0][0].distinct, (blocks,))
        starts = np.stack([base for _, base in loads])
        apart = starts - starts[:1]
        rows = 1 if bool((apart == apart[:, :1]).all()) else blocks
        key = (tuple(id(p) for p, _ in loads), apart[:, :rows].tobytes())
        if key not in self.joint or len(self.joint[key]) != rows:
            flat = [
                np.where(p.numbers >= 0, p.numbers + at[:rows, None], -1)
                if len(p.numbers) == 1 or rows > 1
                else np.where(p.numbers[:1] >= 0, p.numbers[:1] + at[:1, None], -1)
                for (p, _), at in zip(loads, starts)
            ]
            self.joint[key] = distinct_together(flat)
            self.kept.extend(p for p, _ in loads)  # keeps their ids unique
        return np.broadcast_to(self.joint[key], (blocks,))

    def _unknown(self, site: Site, active: Active) -> None:
        """Add lanes at unknown places: random in the storage, if its size is known.

        Threads whose addresses are computed alike are at one place.
        """
        whole = max(map(self.front_end.pointer_bytes, site.parameters), default=0) / SECTOR
        warps = np.maximum(active.warps, 1)
        if not site.by_thread:
            sectors = -(-site.width_bytes // SECTOR)
            for name in ("sectors", "lines"):
                self._add(site, name, sectors * active.warps)
            for name in ("distinct", "paired", "fresh"):
                self._add(site, name, sectors * np.minimum(active.warps, 1))
            return
        of_warp = warps * _expected_distinct_places(active.lanes / warps, whole)
        of_block = _expected_distinct_places(active.lanes, whole)
        for name, amount in (("sectors", of_warp), ("lines", of_warp)):
            self._add(site, name, amount)
        for name in ("distinct", "paired", "fresh"):
            self._add(site, name, of_block)

    def _fresh(self, site: Site, pattern: TouchedSectors, start: Array) -> Array:
        """Count each block's sectors that were not touched before, as far as remembered."""
        table = self.touched.get(site)
        if table is None:
            table = self.touched[site] = np.full(_REMEMBERED, -1, np.int64)
        blocks = self.counters.programs
        sectors = pattern.numbers + start[:, None]
        keys = sectors * blocks + np.arange(blocks)[:, None]
        at = (keys * ODD) >> 46 & (_REMEMBERED - 1)
        there = np.broadcast_to(pattern.numbers >= 0, keys.shape)
        new = (table[at] != keys) & there
        table[at[there]] = keys[there]
        return np.asarray(new.sum(1).astype(np.float64))

    # --------------------------------------------------------------------------------- shared

    def _shared(self) -> None:
        for instruction, addresses, active, width in self.front_end.shared_accesses(self.shared):
            use = instruction.memory
            assert use is not None
            site = SharedSite("copy" if use.path == "async" else use.kind, instruction.line)
            if addresses is None or use.kind == "atomic":
                self.uncounted.setdefault(site.line, 0)
                continue
            where = np.where(active.mask, addresses, -1)
            if use.lanes < _WARP:
                where = np.where(np.arange(where.shape[1]) % _WARP < use.lanes, where, -1)
            taken = self._wavefronts(where, width)
            for name, amounts in zip(("requests", "wavefronts", "least"), taken.T):
                self.counters.add((site, name), amounts)

    def _wavefronts(self, where: Array, width: int) -> Array:
        """Return each block's requests, wavefronts, and wavefronts without conflicts."""
        low = where[where >= 0]
        shift = int(low.min()) // 128 * 128 if low.size else 0
        moved = np.where(where >= 0, where - shift, -1)
        key = (width, moved.tobytes())
        if key not in self.known:
            alike = bool((moved == moved[:1]).all())
            rows = moved[:1] if alike else moved
            counts = np.array([wavefronts(row, width) for row in rows], float)
            self.known[key] = np.repeat(counts, len(moved), axis=0) if alike else counts
        taken: Array = self.known[key]
        return taken


def _stacked(lanes: Sequence[Array]) -> Array:
    """Stack pieces of several instructions; bulk copies of one line may differ in size."""
    most = max(lane.shape[1] for lane in lanes)
    padded = [
        np.pad(lane, ((0, 0), (0, most - lane.shape[1])), constant_values=_NOWHERE)
        for lane in lanes
        if lane.shape[1] < most
    ]
    whole = [lane for lane in lanes if lane.shape[1] == most]
    return np.stack([*whole, *padded])


def _touched_by(lanes: Array) -> TouchedSectors:
    """Group addresses of shape [piece, block, thread]; `_NOWHERE` or more is no access."""
    _, blocks, threads = lanes.shape
    sectors = np.where(lanes < _NOWHERE // 2, lanes // SECTOR, -1).transpose(1, 0, 2)
    sectors = np.pad(sectors, ((0, 0), (0, 0), (0, -threads % _WARP)), constant_values=-1)
    return TouchedSectors.of(sectors.reshape(blocks, -1, _WARP))


def _expected_distinct_places(count: Array, places: float) -> Array:
    """Expect so many distinct places among random ones; Cardenas (1975). All if `places` is 0."""
    if not places:
        return count
    if places <= 1:
        return np.minimum(count, 1.0)
    distinct: Array = places * -np.expm1(count * np.log1p(-1 / places))
    return distinct


# ------------------------------------------------------------------------------------------ places


class Spots:
    """Notes how often and where each site accesses memory, from some threads of each block.

    Keys of the counters: (site, name) with ``"made"``, executions, weighted by the share of threads
    that take part, and ``"moves"``, those at another place than the previous one; ``"made"`` and an
    instruction, how often it accesses anything; and (name, block's number) with ``"runs"`` and
    ``"lanes"``, the latter in threads of the whole block.
    """

    def __init__(self, sites: Mapping[Instruction, Site], counters: Counters, threads: int) -> None:
        self.sites = sites
        self.counters = counters
        self.threads = threads
        self.extents = ExtentRecorder(counters)
        self.made: dict[Instruction, Active] = {}
        self.pending: dict[Site, list[tuple[Array | None, Active]]] = {}

    def access(
        self, instruction: Instruction, space: str, addresses: Array | None, active: Active
    ) -> None:
        """See `solkit.analysis.interpreter.thread_groups.AccessSink`."""
        if space == "global":
            self.pending.setdefault(self.sites[instruction], []).append((addresses, active))
            self.made.setdefault(instruction, active)

    def block_ends(self, block: BasicBlock, active: Active) -> None:
        """See `solkit.analysis.interpreter.thread_groups.AccessSink`."""
        followed = active.mask.shape[1]
        self.counters.add(("runs", block.number), active.any)
        self.counters.add(("lanes", block.number), active.lanes * (self.threads / followed))
        for instruction, who in self.made.items():
            self.counters.add(("made", instruction), who.any)
        for site, pieces in self.pending.items():
            self._site(site, pieces)
        self.pending, self.made = {}, {}

    def _site(self, site: Site, pieces: list[tuple[Array | None, Active]]) -> None:
        followed = pieces[0][1].mask.shape[1]
        share = np.mean([active.lanes for _, active in pieces], axis=0) / followed
        located = [(at, active) for at, active in pieces if at is not None]
        if not located:
            self.extents.note_execution(site, share)
            return
        top = np.int64(1) << 62
        low = np.min([np.where(a.mask, at, top).min(1) for at, a in located], axis=0)
        high = np.max([np.where(a.mask, at, -1).max(1) for at, a in located], axis=0)
        self.extents.note_execution(site, share, (low, high + site.width_bytes), low < top)
