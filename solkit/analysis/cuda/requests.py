"""Requests of a CUDA C++ launch's own code to a GPU: accesses, operations, traffic.

Some blocks are followed thread by thread (`Lanes`), many by some of their threads (`Spots`). Small
launches are followed in full.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np

from solkit.adapters.fake_triton import Argument, TensorArgument
from solkit.adapters.triton_compiler import Compiled
from solkit.analysis.common.access_counts import (
    TOTALS,
    AccessCounts,
    Extent,
    ends_of,
    longest_loads,
    representative,
    spread_out,
    traffic,
    unevenness,
)
from solkit.analysis.common.ptx_numbers import Array
from solkit.analysis.common.regions import ADDRESS_BITS, SECTOR
from solkit.analysis.cuda.accesses import (
    Lanes,
    SharedSite,
    Site,
    Spots,
    sites_of,
    stored_parameters,
)
from solkit.analysis.cuda.flow import BasicBlock, Kernel, read_kernel, registers_of
from solkit.analysis.cuda.loop_extrapolation import Tables
from solkit.analysis.cuda.operations import chain_of, lane_operations, warp_operations
from solkit.analysis.cuda.ptx_interpreter import PTXInterpreter
from solkit.analysis.cuda.thread_groups import Grid
from solkit.core import Device, Occupancy, Requests, SharedAccess

__all__ = ["cuda_requests", "read_parameters"]

_WHOLE_THREADS = 1 << 13
"""Threads followed one by one, in up to `_WHOLE` blocks."""
_WHOLE = 16
_SMALL = 1 << 14
"""Threads of a launch that is followed in full."""
_MANY = 1 << 12
_SPREAD = 1 << 10
"""Blocks followed by some threads: the first ones, and others spread over a larger grid."""
_MOST_WORK = 1_000_000.0
"""`PTXInterpreter.work` that the first ones may take; beyond it, fewer are followed."""
_MUCH_WORK = 250_000.0
"""Work of the others beyond which fewer blocks are followed thread by thread."""
_LINE = 128
_HIDING = frozenset({"call", "tex", "tld4", "suld"})
"""Statements that may read global memory in ways that are not followed."""


@dataclass(frozen=True, eq=False)
class _Run:
    """Some blocks that were followed."""

    numbers: Array
    follower: PTXInterpreter
    spots: Spots
    tables: Tables


@dataclass(frozen=True, eq=False)
class _Followed:
    """A launch, followed in both ways.

    Attributes:
        kernel: its code.
        statements: the site of each statement that accesses global memory, by its id.
        few: blocks followed thread by thread.
        lanes: watched those.
        many: the first blocks of the launch, by some threads.
        wide: blocks spread over the launch, likewise; the many if those are all.
        chosen: which of the wide the few are.
        blocks: of the launch.
        names: of the kernel's parameters in C++, by those in PTX.
        outside: of statements by id, how far they are known to leave a storage, in bytes.
    """

    kernel: Kernel
    statements: Mapping[int, Site]
    few: _Run
    lanes: Lanes
    many: _Run
    wide: _Run
    chosen: Array
    blocks: int
    names: Mapping[str, str]
    outside: Mapping[int, int]

    @property
    def sites(self) -> tuple[Site, ...]:
        """Sites of the kernel's accesses of global memory, in program order."""
        return tuple(dict.fromkeys(self.statements.values()))

    @property
    def weight(self) -> float:
        """Blocks of the launch over the wide."""
        return self.blocks / len(self.wide.numbers)

    @property
    def scale(self) -> float:
        """Blocks of the launch over the many."""
        return self.blocks / len(self.many.numbers)

    def ratio(self, key: object, name: str) -> float:
        """Return executions over the launch per execution by the few."""
        of_wide = self.wide.tables.of((key, name) if isinstance(key, Site) else (name, key))
        seen = float(of_wide[self.chosen].sum())
        if seen:
            return float(of_wide.sum()) * self.weight / seen
        return self.blocks / len(self.few.numbers)

    def total(self, site: Site, name: str) -> float:
        """Sum what a site does over the launch."""
        return float(self.few.tables.of((site, name)).sum()) * self.ratio(site, "made")

    def block_total(self, name: str, number: int) -> float:
        """Count runs, warps or lanes of a block of the code over the launch."""
        return float(self.few.tables.of((name, number)).sum()) * self.ratio(number, "runs")


def cuda_requests(
    compiled: Compiled,
    arguments: Sequence[Argument],
    names: Sequence[str],
    grid: Grid,
    device: Device,
    occupancy: Occupancy,
) -> Requests:
    """Follow a compiled kernel.

    Args:
        compiled: its PTX, what it is called there, and its shared memory.
        arguments: of the launch, in the order of the parameters; ``None`` if unknown.
        names: of the parameters in C++; empty if unknown.
        grid: the launch's blocks and threads.
        device: a target; only its compute capability and SM count matter.
        occupancy: of the launch.

    Raises:
        ValueError: the PTX is not understood.
    """
    kernel = read_kernel(compiled.ptx, compiled.entry)
    followed = _follow(kernel, arguments, names, grid)
    sites = [_counted(site, followed) for site in followed.sites]
    how = compiled.shared_bytes or 0, occupancy, device
    l2_read_bytes, reuse = traffic(sites, _together(followed), *how)
    steps, blocks = _steps(followed), followed.blocks
    runs = [followed.block_total("runs", block.number) for block in kernel.blocks]
    warps = blocks * math.ceil(math.prod(grid.threads) / 32)
    return Requests(
        accesses=tuple(site.access for site in sites if site.access.requests),
        operations=_operations(followed),
        loop_requests=sum(site.access.requests for site in sites if site.is_looped),
        l1_wavefronts=round(sum(site.totals["lines"] for site in sites)),
        l2_read_bytes=round(l2_read_bytes),
        l2_write_bytes=sum(s.access.sector_bytes for s in sites if s.kind != "load"),
        steps=float(steps.mean()),
        imbalance=float(steps.max() / steps.mean()) if steps.any() else 1.0,
        unevenness=unevenness(steps, blocks, device),
        iterations=_iterations(kernel, runs) / blocks,
        chain_cycles=sum(n * chain_of(b.statements) for n, b in zip(runs, kernel.blocks)) / blocks,
        shared=tuple(_shared(followed)),
        barriers=sum(n * _barriers(b) for n, b in zip(runs, kernel.blocks)) / blocks,
        instructions=_instructions(followed) / warps,
        programs_sampled=len(followed.few.numbers),
        guesses=tuple(_guesses(followed)),
        reuse=reuse,
    )


def read_parameters(compiled: Compiled) -> frozenset[int]:
    """Return parameters of a kernel, by their place, through which it may read memory.

    All of them, if it does what is not followed.

    Args:
        compiled: as for `cuda_requests`.

    Raises:
        ValueError: likewise.
    """
    kernel = read_kernel(compiled.ptx, compiled.entry)
    if any(
        statement.name in _HIDING or "bulk" in statement.modifiers
        for statement in kernel.statements
    ):
        return frozenset(range(len(kernel.parameters)))
    sites = sites_of(kernel).values()
    names = {name for site in sites if site.kind != "store" for name in site.parameters}
    names |= stored_parameters(kernel)
    return frozenset(n for n, parameter in enumerate(kernel.parameters) if parameter.name in names)


def _barriers(block: BasicBlock) -> int:
    """Count how often all warps synchronise."""
    waits = (statement for statement in block.statements if statement.name in ("bar", "barrier"))
    return sum("warp" not in wait.modifiers for wait in waits)


# --------------------------------------------------------------------------------------- following


def _follow(
    kernel: Kernel, arguments: Sequence[Argument], names: Sequence[str], grid: Grid
) -> _Followed:
    blocks, threads = math.prod(grid.blocks), math.prod(grid.threads)
    sites = sites_of(kernel)
    everyone = np.arange(threads)
    argument_names = {p.name: name for p, name in zip(kernel.parameters, names)}
    sizes = {p.name: a.storage_bytes for p, a in zip(kernel.parameters, arguments)
             if isinstance(a, TensorArgument)}  # fmt: skip
    sizes |= {s.name: s.size_bytes for s in kernel.symbols.values() if s.space == "global"}

    def by_lanes(numbers: Array) -> tuple[_Run, Lanes]:
        tables = Tables(len(numbers))
        lanes = Lanes(kernel, sites, tables, sizes, threads)
        follower = PTXInterpreter(kernel, grid, arguments, numbers, everyone, tables, lanes, _LINE)
        follower.run()
        return _Run(numbers, follower, lanes.spots, tables), lanes

    def by_spots(numbers: Array) -> _Run:
        tables = Tables(len(numbers))
        spots = Spots(sites, tables, threads)
        some = _some_threads(grid.threads, fine=len(numbers) <= _SPREAD)
        follower = PTXInterpreter(kernel, grid, arguments, numbers, some, tables, spots, 1)
        follower.run()
        return _Run(numbers, follower, spots, tables)

    if blocks * threads <= _SMALL:
        every = np.arange(blocks)
        run, lanes = by_lanes(every)
        outside = _outside(kernel, [run])
        return _Followed(
            kernel, sites, run, lanes, run, run, every, blocks, argument_names, outside
        )
    wide = by_spots(spread_out(_SPREAD, blocks))  # all where they are no more
    affordable = wide.follower.work * _MANY / _SPREAD < _MOST_WORK
    many = wide
    if blocks > _SPREAD:
        many = by_spots(np.arange(min(blocks, _MANY if affordable else _SPREAD)))
    count = max(2, min(_WHOLE, _WHOLE_THREADS // threads))
    if wide.follower.work > _MUCH_WORK:
        count = max(2, count // 4)
    executions = [wide.tables.of((site, "made")) for site in dict.fromkeys(sites.values())]
    chosen = representative(count, len(wide.numbers), executions)
    few, lanes = by_lanes(wide.numbers[chosen])
    ends = by_spots(ends_of(grid.blocks))  # what leaves a storage does so there
    outside = _outside(kernel, [few, many, wide, ends])
    return _Followed(kernel, sites, few, lanes, many, wide, chosen, blocks, argument_names, outside)


def _outside(kernel: Kernel, runs: Sequence[_Run]) -> Mapping[int, int]:
    """Return how far statements are known to leave a storage, in bytes.

    What loaded values decide is left out: what is in memory when the kernel runs is not known.
    """
    deciding = kernel.depends_on(
        statement.guard.lstrip("!") for statement in kernel.statements if statement.guard
    )
    loads = (statement for statement in kernel.statements if statement.name in ("ld", "atom"))
    loaded = (registers_of(load)[0] for load in loads if "param" not in load.modifiers)
    if any(run.follower.guesses for run in runs) or not deciding.isdisjoint(chain(*loaded)):
        return {}
    outside_bytes: dict[int, int] = {}
    for statement, reached in chain.from_iterable(run.follower.outside.items() for run in runs):
        outside_bytes[statement] = max(reached, outside_bytes.get(statement, 0))
    return outside_bytes


def _some_threads(threads: tuple[int, int, int], fine: bool) -> Array:
    """Choose threads that show how far a block reaches, such as ends of each axis and warp."""
    x, y, z = threads
    whole = x * y * z
    if y == z == 1:
        picked = {0, 1, 31, 32, whole // 2 - 1, whole // 2, whole - 32, whole - 1}
        return np.array(sorted(at for at in picked if 0 <= at < whole))
    columns, rows, layers = ({0, n // 2, n - 1} for n in threads)
    columns |= {x // 4, 3 * x // 4}
    if fine:
        rows |= {y // 4, 3 * y // 4}
    return np.array(sorted(c + x * (r + y * at) for c in columns for r in rows for at in layers))


# ----------------------------------------------------------------------------------------- counting


def _counted(site: Site, followed: _Followed) -> AccessCounts:
    many, few = followed.many.tables, followed.few.tables
    executions = float(followed.wide.tables.of((site, "made")).sum()) * followed.weight
    if not executions:
        executions = float(few.of((site, "made")).sum()) * followed.ratio(site, "made")
    totals = {name: followed.total(site, name) for name in TOTALS}
    once = SECTOR * totals["distinct"] / executions if executions else 0.0
    moves, per_block = many.of((site, "moves")), many.of((site, "made"))
    moved = moves * once
    if followed.few is followed.many:
        moved = few.of((site, "distinct")) * SECTOR * moves / np.maximum(per_block, 1e-9)
    few_moved = float(few.of((site, "moves")).sum()) * once / SECTOR
    fresh = float(few.of((site, "fresh")).sum())
    extent = followed.many.spots.extents.get(site) or Extent.nowhere(len(followed.many.numbers))
    argument, size = _storage(site, extent.low, followed)
    return AccessCounts(
        kind=site.kind,
        path=site.path,
        argument=argument,
        line=site.line,
        vector_bytes=site.width_bytes,
        phase=site.phase,
        storage_bytes=size,
        gathered=site.gathered,
        depth=site.depth,
        scale=followed.scale,
        executions=executions,
        totals=totals,
        low=extent.low,
        high=extent.high,
        per_program=per_block,
        moves=moves,
        moved=moved,
        fresh=min(fresh / few_moved, 1.0) if few_moved else 1.0,
        manner=site.manner,
        meetings=followed.lanes.meetings.get(site),
        followed=len(followed.few.numbers),
        outside_bytes=0 if site.gathered else _reached(site, followed),
    )


def _reached(site: Site, followed: _Followed) -> int:
    """Return how far any statement of a site is known to leave its storage, in bytes."""
    statements = (statement for statement, at in followed.statements.items() if at == site)
    return max((followed.outside.get(statement, 0) for statement in statements), default=0)


def _storage(site: Site, low: Array, followed: _Followed) -> tuple[str, int]:
    """Return the C++ name of the argument that it points into, and the size of its storage."""
    follower = followed.many.follower
    place = int(low.max()) >> ADDRESS_BITS if low.max() >= 0 else 0
    named = list(site.parameters)
    size = 0
    if 0 < place <= len(follower.storages):
        size = follower.storages[place - 1].storage_bytes
        aliases = [p.name for p, a in zip(follower.kernel.parameters, follower.arguments)
                 if isinstance(a, TensorArgument)
                 and a.storage == follower.storages[place - 1].storage]  # fmt: skip
        named = [name for name in site.parameters if name in aliases] or aliases or named
    elif len(named) == 1:
        size = followed.lanes.sizes.get(named[0], 0)
    if place and not named:
        return "", size
    return (followed.names.get(named[0], named[0]) if len(named) == 1 or place else ""), size


def _together(followed: _Followed) -> float:
    """Return distinct sectors of the loads of one block of code over the sum of each one's own."""
    apart = float(followed.few.tables.of(("apart",)).sum())
    return float(followed.few.tables.of(("together",)).sum()) / apart if apart else 1.0


def _operations(followed: _Followed) -> dict[str, int]:
    total: dict[str, float] = {}
    for block in followed.kernel.blocks:
        lanes = followed.block_total("lanes", block.number)
        warps = followed.block_total("warps", block.number)
        for statement in block.statements:
            for pipe, count in lane_operations(statement).items():
                total[pipe] = total.get(pipe, 0.0) + count * lanes
            for pipe, count in warp_operations(statement).items():
                total[pipe] = total.get(pipe, 0.0) + count * warps
    return {pipe: round(count) for pipe, count in sorted(total.items()) if count >= 0.5}


def _instructions(followed: _Followed) -> float:
    """Count instructions of all warps of the launch, without moves."""
    return sum(
        followed.block_total("warps", block.number) * sum(s.name != "mov" for s in block.statements)
        for block in followed.kernel.blocks
    )


def _iterations(kernel: Kernel, runs: Sequence[float]) -> float:
    """Return the executions of the code in loops, mean over its statements."""
    sizes = [len(block.statements) if block.loops else 0 for block in kernel.blocks]
    whole = sum(sizes)
    return sum(size * n for size, n in zip(sizes, runs)) / whole if whole else 0.0


def _steps(followed: _Followed) -> Array:
    """Count steps by statement: several that stem from one line are requested together."""
    loads = (
        (site.phase, followed.wide.tables.of(("made", statement)))
        for statement, site in followed.statements.items()
        if site.kind == "load"
    )
    return longest_loads(loads, len(followed.wide.numbers))


def _shared(followed: _Followed) -> list[SharedAccess]:
    share = followed.blocks / len(followed.few.numbers)
    sites = dict.fromkeys(
        key[0] for key in followed.few.tables.rows if isinstance(key[0], SharedSite)
    )
    accesses = []
    for site in sites:
        requests, taken, least = (
            round(float(followed.few.tables.of((site, name)).sum()) * share)
            for name in ("requests", "wavefronts", "least")
        )
        if requests:
            accesses.append(SharedAccess(site.kind, site.line, requests, taken, least))
    return accesses


def _guesses(followed: _Followed) -> list[str]:
    runs = (followed.many, followed.wide, followed.few)
    guesses = list(dict.fromkeys(guess for run in runs for guess in run.follower.guesses))
    lines = ", ".join(followed.lanes.uncounted)
    if lines:
        sentence = "accesses of shared memory that depend on data or are atomics"
        guesses.append(f"{lines}: {sentence}: the wavefronts that they take are not counted.")
    return guesses
