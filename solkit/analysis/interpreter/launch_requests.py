"""Requests of a launch's own code to a GPU: accesses, operations, traffic.

Some blocks are followed thread by thread (`Lanes`), many by some of their threads (`Spots`). Small
launches are followed in full.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain

import numpy as np

from solkit.analysis.common.regions import ADDRESS_BITS
from solkit.analysis.interpreter.access_counts import AccessCounts, longest_loads, unevenness
from solkit.analysis.interpreter.access_sinks import Lanes, SharedSite, Site, Spots, sites_of
from solkit.analysis.interpreter.control_flow import ControlFlow, Instruction
from solkit.analysis.interpreter.counters import Counters
from solkit.analysis.interpreter.front_end import Cost, FrontEnd
from solkit.analysis.interpreter.launch_counts import LaunchCounts, memory_requests
from solkit.analysis.interpreter.sampling import ends_of, representative, spread_out
from solkit.analysis.interpreter.thread_groups import Grid
from solkit.analysis.interpreter.thread_interpreter import ThreadInterpreter
from solkit.analysis.interpreter.values import Array
from solkit.core import Device, Occupancy, Requests, SharedAccess

_WHOLE_THREADS = 1 << 13
"""Threads followed one by one, in up to `_WHOLE` blocks."""
_WHOLE = 16
_SMALL = 1 << 14
"""Threads of a launch that is followed in full."""
_MANY = 1 << 12
_SPREAD = 1 << 10
"""Blocks followed by some threads: the first ones, and others spread over a larger grid."""
_MOST_WORK = 1_000_000.0
"""`ThreadInterpreter.work` that the first ones may take; beyond it, fewer are followed."""
_MUCH_WORK = 250_000.0
"""Work of the others beyond which fewer blocks are followed thread by thread."""
_LINE = 128


@dataclass(frozen=True, eq=False)
class _Run:
    """Some blocks that were followed."""

    numbers: Array
    threads: ThreadInterpreter
    spots: Spots
    counters: Counters


@dataclass(frozen=True, eq=False)
class _Followed:
    """A launch, followed in both ways.

    Attributes:
        front_end: its code.
        instructions: the site of each instruction that accesses global memory.
        few: blocks followed thread by thread.
        lanes: watched those.
        many: the first blocks of the launch, by some threads.
        wide: blocks spread over the launch, likewise; the many if those are all.
        chosen: which of the wide the few are.
        blocks: of the launch.
        outside: how far instructions are known to leave a storage, in bytes.
    """

    front_end: FrontEnd
    instructions: Mapping[Instruction, Site]
    few: _Run
    lanes: Lanes
    many: _Run
    wide: _Run
    chosen: Array
    blocks: int
    outside: Mapping[Instruction, int]

    @property
    def sites(self) -> tuple[Site, ...]:
        """Sites of the kernel's accesses of global memory, in program order."""
        return tuple(dict.fromkeys(self.instructions.values()))

    @cached_property
    def counts(self) -> LaunchCounts:
        """Counts over the launch."""
        return LaunchCounts(
            few=self.few.counters,
            many=self.many.counters,
            wide=self.wide.counters,
            chosen=self.chosen,
            scale=self.blocks / len(self.many.numbers),
            weights=self.blocks / len(self.wide.numbers),
            extents=self.many.spots.extents,
            contention=self.lanes.contention,
            unseen_ratio=self.blocks / len(self.few.numbers),
        )

    def block_total(self, name: str, number: int) -> float:
        """Count runs, warps or lanes of a block of the code over the launch."""
        return self.few.counters.total((name, number)) * self.counts.ratio(("runs", number))


def launch_requests(
    front_end: FrontEnd, shared_bytes: int, grid: Grid, device: Device, occupancy: Occupancy
) -> Requests:
    """Follow a launch.

    Args:
        front_end: the kernel and its arguments.
        shared_bytes: shared memory of a block.
        grid: the launch's blocks and threads.
        device: a target; only its compute capability and SM count matter.
        occupancy: of the launch.
    """
    flow, followed = front_end.flow, _follow_launch(front_end, grid)
    sites = [_site_counts(site, followed) for site in followed.sites]
    steps, blocks = _load_steps(followed), followed.blocks
    runs = [followed.block_total("runs", block.number) for block in flow.blocks]
    warps = blocks * math.ceil(math.prod(grid.threads) / 32)
    chains = (front_end.chain_cycles(block.instructions) for block in flow.blocks)
    costs = {i: front_end.cost(i) for i in flow.instructions}
    barriers = (sum(costs[i].is_barrier for i in block.instructions) for block in flow.blocks)
    return Requests(
        **memory_requests(sites, followed.counts.together, shared_bytes, occupancy, device),
        operations=_operations(followed, costs),
        l1_wavefronts=round(sum(s.totals["lines"] for s in sites if s.path != "tma")),
        steps=float(steps.mean()),
        imbalance=float(steps.max() / steps.mean()) if steps.any() else 1.0,
        unevenness=unevenness(steps, blocks, device),
        iterations=_iterations(flow, runs) / blocks,
        chain_cycles=sum(n * cycles for n, cycles in zip(runs, chains)) / blocks,
        shared=tuple(_shared(followed)),
        barriers=sum(n * count for n, count in zip(runs, barriers)) / blocks,
        instructions=_instructions(followed, costs) / warps,
        programs_sampled=len(followed.few.numbers),
        guesses=tuple(_guesses(followed)),
    )


# --------------------------------------------------------------------------------------- following


def _follow_launch(front_end: FrontEnd, grid: Grid) -> _Followed:
    blocks, threads = math.prod(grid.blocks), math.prod(grid.threads)
    sites = sites_of(front_end.flow, front_end.is_of_thread)
    everyone = np.arange(threads)

    def by_lanes(numbers: Array) -> tuple[_Run, Lanes]:
        counters = Counters(len(numbers))
        lanes = Lanes(front_end, sites, counters, threads)
        run = ThreadInterpreter(front_end, grid, numbers, everyone, counters, lanes, _LINE)
        run.run()
        return _Run(numbers, run, lanes.spots, counters), lanes

    def by_spots(numbers: Array) -> _Run:
        counters = Counters(len(numbers))
        spots = Spots(sites, counters, threads)
        some = _some_threads(grid.threads, fine=len(numbers) <= _SPREAD)
        if front_end.needs_first_lanes:
            some = np.union1d(some, np.arange(0, threads, 32))
        run = ThreadInterpreter(front_end, grid, numbers, some, counters, spots, 1)
        run.run()
        return _Run(numbers, run, spots, counters)

    if blocks * threads <= _SMALL:
        every: Array = np.arange(blocks)
        run, lanes = by_lanes(every)
        outside = _bytes_outside_storages(front_end.flow, [run])
        return _Followed(front_end, sites, run, lanes, run, run, every, blocks, outside)
    wide = by_spots(spread_out(_SPREAD, blocks))  # all where they are no more
    affordable = wide.threads.work * _MANY / _SPREAD < _MOST_WORK
    many = wide
    if blocks > _SPREAD:
        many = by_spots(np.arange(min(blocks, _MANY if affordable else _SPREAD)))
    count = max(2, min(_WHOLE, _WHOLE_THREADS // threads))
    if wide.threads.work > _MUCH_WORK:
        count = max(2, count // 4)
    executions = [wide.counters.of((site, "made")) for site in dict.fromkeys(sites.values())]
    chosen = representative(count, len(wide.numbers), executions)
    few, lanes = by_lanes(wide.numbers[chosen])
    ends = by_spots(ends_of(grid.blocks))  # what leaves a storage does so there
    outside = _bytes_outside_storages(front_end.flow, [few, many, wide, ends])
    return _Followed(front_end, sites, few, lanes, many, wide, chosen, blocks, outside)


def _bytes_outside_storages(flow: ControlFlow, runs: Sequence[_Run]) -> Mapping[Instruction, int]:
    """Return how far instructions are known to leave a storage, in bytes.

    What loaded values decide is left out: what is in memory when the kernel runs is not known.
    """
    deciding = flow.depends_on(i.condition for i in flow.instructions if i.guard)
    loaded = (i.written for i in flow.instructions if i.loads == "memory")
    if any(run.threads.guesses for run in runs) or not deciding.isdisjoint(chain(*loaded)):
        return {}
    outside_bytes: dict[Instruction, int] = {}
    for instruction, reached in chain.from_iterable(run.threads.outside.items() for run in runs):
        outside_bytes[instruction] = max(reached, outside_bytes.get(instruction, 0))
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


def _site_counts(site: Site, followed: _Followed) -> AccessCounts:
    argument, size = _argument_and_storage(site, followed.counts.extent(site).low, followed)
    return followed.counts.of_access(
        site,
        kind=site.kind,
        path=site.path,
        argument=argument,
        line=site.line,
        vector_bytes=0 if site.path == "tma" else site.width_bytes,
        phase=site.phase,
        storage_bytes=size,
        gathered=site.gathered,
        depth=site.depth,
        modifiers=site.modifiers,
        outside_bytes=0 if site.gathered else _site_bytes_outside(site, followed),
    )


def _site_bytes_outside(site: Site, followed: _Followed) -> int:
    """Return how far any instruction of a site is known to leave its storage, in bytes."""
    reached = (followed.outside.get(i, 0) for i, at in followed.instructions.items() if at == site)
    return max(reached, default=0)


def _argument_and_storage(site: Site, low: Array, followed: _Followed) -> tuple[str, int]:
    """Return the name of the argument that it points into, and the size of its storage."""
    front_end = followed.front_end
    place = int(low.max()) >> ADDRESS_BITS if low.max() >= 0 else 0
    named = list(site.parameters)
    size = 0
    if storage := front_end.storages.at_place(place):
        size = storage.storage_bytes
        aliases = front_end.pointers_into(storage)
        named = [name for name in site.parameters if name in aliases] or aliases or named
    elif len(named) == 1:
        size = front_end.pointer_bytes(named[0])
    if place and not named:
        return "", size
    return (front_end.argument_name(named[0]) if len(named) == 1 or place else ""), size


def _operations(followed: _Followed, costs: Mapping[Instruction, Cost]) -> dict[str, int]:
    total: dict[str, float] = {}
    for block in followed.front_end.flow.blocks:
        lanes = followed.block_total("lanes", block.number)
        warps = followed.block_total("warps", block.number)
        for instruction in block.instructions:
            for pipe, count in costs[instruction].lane_operations.items():
                total[pipe] = total.get(pipe, 0.0) + count * lanes
            for pipe, count in costs[instruction].warp_operations.items():
                total[pipe] = total.get(pipe, 0.0) + count * warps
    return {pipe: round(count) for pipe, count in sorted(total.items()) if count >= 0.5}


def _instructions(followed: _Followed, costs: Mapping[Instruction, Cost]) -> float:
    """Count instructions of all warps of the launch."""
    return sum(
        followed.block_total("warps", block.number)
        * sum(costs[instruction].is_issued for instruction in block.instructions)
        for block in followed.front_end.flow.blocks
    )


def _iterations(flow: ControlFlow, runs: Sequence[float]) -> float:
    """Return the executions of the code in loops, mean over its instructions."""
    sizes = [len(block.instructions) if block.loops else 0 for block in flow.blocks]
    whole = sum(sizes)
    return sum(size * n for size, n in zip(sizes, runs)) / whole if whole else 0.0


def _load_steps(followed: _Followed) -> Array:
    """Count steps by instruction: several that stem from one line are requested together."""
    loads = (
        (site.phase, followed.wide.counters.of(("made", instruction)))
        for instruction, site in followed.instructions.items()
        if site.kind == "load"
    )
    return longest_loads(loads, len(followed.wide.numbers))


def _shared(followed: _Followed) -> list[SharedAccess]:
    share = followed.blocks / len(followed.few.numbers)
    sites = dict.fromkeys(
        key[0] for key in followed.few.counters.by_key if isinstance(key[0], SharedSite)
    )
    accesses = []
    for site in sites:
        requests, taken, least = (
            round(followed.few.counters.total((site, name)) * share)
            for name in ("requests", "wavefronts", "least")
        )
        if requests:
            accesses.append(SharedAccess(site.kind, site.line, requests, taken, least))
    return accesses


def _guesses(followed: _Followed) -> list[str]:
    runs = (followed.many, followed.wide, followed.few)
    guesses = list(dict.fromkeys(guess for run in runs for guess in run.threads.guesses))
    lines = ", ".join(followed.lanes.uncounted)
    if lines:
        sentence = "accesses of shared memory that depend on data or are atomics"
        guesses.append(f"{lines}: {sentence}: the wavefronts that they take are not counted.")
    return guesses
