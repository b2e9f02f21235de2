"""What a launch asks of the GPU by its own code: accesses, operations, traffic.

Some programs are followed lane by lane (`Whole`), many by the corners of their tensors (`Corners`);
the first say how much an execution of an access costs, the second how often and where it is made.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from solkit.adapters.fake_triton import Argument
from solkit.adapters.triton_ir import Block, Function, Operation, parse, vector_widths
from solkit.analysis.common.l2_traffic import l1_misses
from solkit.analysis.common.regions import ADDRESS_BITS, SECTOR, Region, unique_bytes
from solkit.analysis.common.reuse import reuse_of
from solkit.analysis.triton.accesses import Corners, Extent, Whole, Widths, kind_of, path_of
from solkit.analysis.triton.estimates import estimated_shared_traffic, mask_runs
from solkit.analysis.triton.loops import Counts
from solkit.analysis.triton.operations import chain_cycles, operations_of
from solkit.analysis.triton.programs import Descriptor, Programs
from solkit.analysis.triton.relevance import from_memory, relevant_values
from solkit.analysis.triton.shared_memory import shared_traffic, tensor_shared_bytes
from solkit.core import Access, Device, Occupancy, Requests

__all__ = ["requests_of", "spread_out", "unevenness"]

_WHOLE = 16
"""Programs followed lane by lane."""
_CORNERS = 1 << 12
"""Programs followed by their corners."""
_SPREAD = 1 << 10
"""Programs of a larger grid that are followed by their corners besides, from all over it."""
_GOLDEN = (math.sqrt(5) - 1) / 2

Array = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True, eq=False)
class _Followed:
    """A launch, followed in both ways.

    Attributes:
        function: the kernel.
        few: counts of the programs that were followed whole.
        watcher: of those.
        many: of the first ones of the launch, followed by their corners.
        wide: of some from all over the launch, likewise; the many where those are all there are.
        chosen: which of the wide the few are.
        corners: where the many make their accesses.
        operations: that access memory, in any of the programs.
        programs: the many.
        scale: how many times as many programs as the many the launch has.
        weight: how many times as many as the wide.
        guesses: what was taken for granted.
        computed: the values that are computed from what was loaded.
        phases: of each operation, as `_phases` numbers them.
        depths: of each operation, how many loops are around it.
    """

    function: Function
    few: Counts
    watcher: Whole
    many: Counts
    wide: Counts
    chosen: npt.NDArray[np.int64]
    corners: Corners
    operations: tuple[Operation, ...]
    programs: Programs
    scale: float
    weight: float
    guesses: tuple[str, ...]
    computed: frozenset[str]
    phases: Mapping[Operation, int]
    depths: Mapping[Operation, int]


@dataclass(frozen=True, eq=False)
class _Site:
    """One access of the code, and the region that each of the many programs touches."""

    access: Access
    region: Region
    beyond_hits: float
    lines: int
    looped: bool

    @property
    def writes(self) -> bool:
        return self.access.kind != "load"


def requests_of(
    ttgir: str,
    ptx: str,
    arguments: Mapping[str, Argument],
    grid: tuple[int, int, int],
    device: Device,
    occupancy: Occupancy,
    shared_bytes: int,
) -> Requests:
    """Follow a kernel.

    Args:
        ttgir: the compiler's last IR before LLVM.
        ptx: of the same compile; empty for a kernel that was only lowered: widths of accesses,
            shared memory and instructions are then estimated.
        arguments: by parameter.
        grid: programs in x, y and z.
        device: a target; only its compute capability, with the limits of that, and its SM count
            matter.
        occupancy: of the launch.
        shared_bytes: shared memory of a block.

    Raises:
        ValueError: the IR is not understood.
    """
    followed = _follow(parse(ttgir), vector_widths(ptx) if ptx else None, arguments, grid)
    sites = [_site(operation, followed) for operation in followed.operations]
    executions = _executions(followed)
    code = followed.function, executions, math.prod(grid)
    shared = shared_traffic(ptx, *code) if ptx else estimated_shared_traffic(*code)
    steps = _steps(followed)
    missed = _missed(sites, followed, shared_bytes, occupancy, device)
    return Requests(
        accesses=tuple(site.access for site in sites if site.access.requests),
        operations=operations_of(followed.function, executions),
        loop_requests=sum(site.access.requests for site in sites if site.looped),
        l1_wavefronts=sum(site.lines for site in sites),
        l2_read_bytes=round(
            sum(_l2_read_bytes(site, missed, followed) for site in sites if not site.writes)
        ),
        l2_write_bytes=sum(s.access.sector_bytes for s in sites if s.writes),
        steps=float(steps.mean()),
        imbalance=float(steps.max() / steps.mean()) if steps.any() else 1.0,
        unevenness=unevenness(steps, math.prod(grid), device),
        iterations=_iterations(followed.function, executions) / math.prod(grid),
        chain_cycles=chain_cycles(followed.function, executions) / math.prod(grid),
        shared=shared.accesses,
        tensor_shared_bytes=round(tensor_shared_bytes(followed.function, executions)),
        barriers=shared.barriers / math.prod(grid),
        instructions=shared.instructions / math.prod(grid),
        programs_sampled=followed.few.programs,
        guesses=(*followed.guesses, *shared.guesses),
        reuse=reuse_of(
            [site.region for site in sites],
            occupancy.blocks_per_sm * device.sm_count,
            device,
            followed.scale,
            [missed.get(site.region, 1.0) for site in sites],
        ),
    )


def _share(counts: Counts, part: str, whole: str) -> float:
    """One key's sum over another's; 1 where nothing was counted."""
    if whole not in counts.by_key:
        return 1.0
    return float(counts.by_key[part].sum() / max(counts.by_key[whole].sum(), 1.0))


def _missed(
    sites: Sequence[_Site],
    followed: _Followed,
    shared_bytes: int,
    occupancy: Occupancy,
    device: Device,
) -> dict[Region, float]:
    """Of each region that goes through L1, the share that L1 does not have."""
    regions = [s.region for s in sites if s.access.path == "global" and s.access.kind != "atomic"]
    together = _share(followed.few, "together", "apart")
    shares = l1_misses(regions, together, shared_bytes, occupancy, device)
    return dict(zip(regions, shares, strict=True))


def _l2_read_bytes(site: _Site, missed: Mapping[Region, float], followed: _Followed) -> float:
    if site.region not in missed:
        return float(_past_l1(site.access))
    together = _share(followed.few, "together", "apart")
    return site.beyond_hits * together * missed[site.region]


def _past_l1(access: Access) -> int:
    """Bytes of a copy or an atomic; copies of less than 16 bytes a lane go through L1.

    Source: PTX ISA, cp.async: ``.ca`` caches at all levels, ``.cg`` in L2 alone and for 16 bytes.
    """
    narrow = access.path == "async" and access.vector_bytes < 16
    return SECTOR * (access.block_sectors if narrow else access.sectors)


def _follow(
    function: Function,
    widths: Widths | None,
    arguments: Mapping[str, Argument],
    grid: tuple[int, int, int],
) -> _Followed:
    programs = math.prod(grid)
    first: npt.NDArray[np.int64] = np.arange(min(programs, _CORNERS))
    relevant = relevant_values(function.blocks)
    corners, coarse = _by_corners(function, arguments, grid, first, relevant)
    wide, numbers, guesses = corners, first, coarse.guesses
    if programs > _CORNERS:
        numbers = spread_out(_SPREAD, programs)
        wide, scattered = _by_corners(function, arguments, grid, numbers, relevant)
        guesses = {**guesses, **scattered.guesses}
    chosen = _representative(wide)
    few = Counts(len(chosen))
    runs = mask_runs(function) if widths is None else {}
    watcher = Whole(few, widths, function.num_warps, runs)
    fine = Programs(function, arguments, grid, numbers[chosen], watcher, few, relevant)
    fine.run()
    return _Followed(
        function=function,
        few=few,
        watcher=watcher,
        many=corners.counts,
        wide=wide.counts,
        chosen=chosen,
        corners=corners,
        operations=tuple({**corners.extents, **wide.extents}),
        programs=coarse,
        scale=programs / len(first),
        weight=programs / len(numbers),
        guesses=tuple({**guesses, **fine.guesses}),
        computed=from_memory(function.blocks),
        phases=_phases(function),
        depths=dict(_depths(function.blocks)),
    )


def _by_corners(
    function: Function,
    arguments: Mapping[str, Argument],
    grid: tuple[int, int, int],
    numbers: npt.NDArray[np.int64],
    relevant: frozenset[str],
) -> tuple[Corners, Programs]:
    counts = Counts(len(numbers))
    corners = Corners(counts)
    programs = Programs(function, arguments, grid, numbers, corners, counts, relevant, corners=True)
    programs.run()
    return corners, programs


def _representative(wide: Corners) -> npt.NDArray[np.int64]:
    """Some of the programs, and of each access that none of them makes one that does."""
    chosen = set(spread_out(_WHOLE, wide.counts.programs).tolist())
    for operation in wide.extents:
        made = wide.counts.by_key[operation, "made"]
        if made.any() and not made[list(chosen)].any():
            chosen.add(int(made.argmax()))
    return np.array(sorted(chosen))


def spread_out(count: int, programs: int) -> npt.NDArray[np.int64]:
    """Program numbers with no period in common with a grid's sides; all where they are few."""
    if count >= programs:
        return np.arange(programs)
    steps = (np.arange(count) * _GOLDEN + 0.5 / count) % 1.0
    chosen: npt.NDArray[np.int64] = np.unique((steps * programs).astype(np.int64))
    return chosen.clip(0, programs - 1)


def _site(operation: Operation, followed: _Followed) -> _Site:
    few, many, wide = followed.few, followed.many, followed.wide
    nothing = np.zeros(many.programs)
    made, moves = (many.by_key.get((operation, name), nothing) for name in ("made", "moves"))
    of_wide = wide.by_key.get((operation, "made"), np.zeros(wide.programs))
    executions = float(of_wide.sum()) * followed.weight
    seen = float(of_wide[followed.chosen].sum())
    ratio = executions / seen if seen else 0.0

    def total(name: str) -> float:
        numbers = few.by_key.get((operation, name))
        return 0.0 if numbers is None else float(numbers.sum()) * ratio

    extent = followed.corners.extents.get(operation) or Extent.nowhere(many.programs)
    once = SECTOR * total("distinct") / executions if executions else 0.0
    between = np.where(extent.low < 0, np.inf, extent.high - extent.low + SECTOR)
    place = int(extent.low.max()) >> ADDRESS_BITS
    storages = followed.programs.storages
    size = storages[place - 1].storage_bytes if 0 < place <= len(storages) else 0
    own = moves * once
    if few.programs == many.programs:  # all were followed whole
        own = few.by_key[operation, "distinct"] * SECTOR * moves / np.maximum(made, 1e-9)
    phase = followed.phases[operation]
    path, kind = path_of(operation), kind_of(operation)
    paired, distinct = total("paired"), total("distinct")
    region = Region(
        low=extent.low,
        high=extent.high,
        size=np.minimum(own, between),
        storage_bytes=size,
        phase=phase,
        kind=kind,
        moved=own,
        once=once if followed.depths[operation] < 2 else 0.0,
        covered=min(total("bytes") / (SECTOR * distinct), 1.0) if distinct else 1.0,
        pairs=paired / distinct if paired else 1.0,
        gathered=not followed.computed.isdisjoint(operation.operands),
    )
    access = Access(
        kind=kind,
        path=path,
        argument=_name_of(place, followed.programs),
        line=str(operation.places[0]) if operation.places else "",
        requests=round(total("requests")),
        sectors=round(total("sectors")),
        block_sectors=round(total("distinct")),
        requested_bytes=round(total("bytes")),
        unique_bytes=round(unique_bytes([region], followed.scale)),
        vector_bytes=followed.watcher.vector_bytes(operation) if path != "tma" else 0,
    )
    moving = float(np.minimum(moves, made).sum() / made.sum()) if made.any() else 1.0
    moved = moving * executions * once
    beyond_hits = min(moved, float(access.sector_bytes))
    return _Site(access, region, beyond_hits, round(total("lines")), phase % 2 == 1)


def _phases(function: Function) -> dict[Operation, int]:
    """Of each operation, the number of the outermost loop around it; between loops is another."""
    found: dict[Operation, int] = {}
    number = 0
    for block in function.blocks:
        for outer in block.operations:
            loops = bool(outer.blocks) and outer.name != "scf.if"
            number += loops
            found[outer] = number
            found |= {inner: number for body in outer.blocks for inner in body.walk()}
            number += loops
    return found


def _depths(blocks: Sequence[Block], depth: int = 0) -> Iterator[tuple[Operation, int]]:
    """Each operation, and how many loops are around it."""
    for block in blocks:
        for each in block.operations:
            yield each, depth
            yield from _depths(each.blocks, depth + (each.name in ("scf.for", "scf.while")))


def _name_of(place: int, programs: Programs) -> str:
    """The first parameter that points into a storage."""
    for name, _ in programs.function.arguments:
        value = programs.env.get(name)
        base = value.base if isinstance(value, Descriptor) else value
        if base is not None and int(base.flat[0]) >> ADDRESS_BITS == place > 0:
            return name[1:]
    return ""


def _steps(followed: _Followed) -> Array:
    """Executions of the load that each program makes most often, of one loop after the other."""
    counts = followed.wide.by_key
    phases: dict[int, list[Array]] = {}
    for operation in followed.operations:
        if kind_of(operation) == "load" and (operation, "runs") in counts:
            runs = counts[operation, "runs"]
            phases.setdefault(followed.phases[operation], []).append(runs)
    longest = [np.max(runs, axis=0) for runs in phases.values()]
    steps: Array = sum(longest, np.zeros(followed.wide.programs))
    return steps


def unevenness(steps: Array, programs: int, device: Device) -> float:
    """What the SM that gets most has to do over the mean; see `Requests.unevenness`.

    Beyond the programs that were followed, those that come go on like them on average, and the
    last round is as long as the longest.
    """
    lengths = np.maximum(steps, 1.0)
    if programs > len(steps):
        rounds = math.ceil(programs / device.sm_count)
        longest = float(lengths.max() / lengths.mean())
        return (rounds - 1 + longest) * device.sm_count / programs
    busy = [0.0] * device.sm_count
    for length in lengths.tolist():
        heapq.heapreplace(busy, busy[0] + length)
    return max(busy) * device.sm_count / float(lengths.sum())


def _iterations(function: Function, executions: Mapping[Any, float]) -> float:
    """Executions of the code within loops, each operation counting alike."""
    loops = [
        block
        for outer in function.blocks
        for operation in outer.walk()
        if operation.name in ("scf.for", "scf.while")
        for block in operation.blocks
    ]
    sizes = [len(block.operations) for block in loops]
    run = sum(size * executions.get(b, 0.0) for size, b in zip(sizes, loops, strict=True))
    return run / sum(sizes) if loops else 0.0


def _executions(followed: _Followed) -> Mapping[Any, float]:
    """How often each block of the code is run, over the launch."""
    return {
        block: float(numbers.sum()) * followed.weight
        for block, numbers in followed.wide.by_key.items()
        if not isinstance(block, tuple)
    }
