"""Requests of a Triton launch's own code to a GPU: accesses, operations, traffic.

Some programs are followed lane by lane (`Whole`), many by the corners of their tensors (`Corners`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from solkit.adapters.launch_recording import Argument
from solkit.adapters.triton_ir import Block, Function, Operation, parse_module
from solkit.adapters.triton_ptx import Widths, vector_widths
from solkit.analysis.common.access_modifiers import ttgir_modifiers
from solkit.analysis.common.regions import ADDRESS_BITS
from solkit.analysis.interpreter.access_counts import AccessCounts, longest_loads, unevenness
from solkit.analysis.interpreter.access_recorders import Extent
from solkit.analysis.interpreter.counters import Counters
from solkit.analysis.interpreter.launch_counts import LaunchCounts, memory_requests
from solkit.analysis.interpreter.sampling import ends_of, representative, spread_out
from solkit.analysis.triton.accesses import Corners, Whole, access_kind, access_path
from solkit.analysis.triton.bank_conflicts import shared_traffic, tensor_shared_bytes
from solkit.analysis.triton.coalescing import mask_runs
from solkit.analysis.triton.operations import chain_cycles, operations_of
from solkit.analysis.triton.program_sampling import Sample, ragged_sample
from solkit.analysis.triton.register_estimates import estimated_shared_traffic
from solkit.analysis.triton.relevance import (
    RelevantValues,
    from_memory,
    relevant_values,
    scattered_values,
    steering_values,
)
from solkit.analysis.triton.staged_loads import staged_loads
from solkit.analysis.triton.ttgir_interpreter import TTGIRInterpreter
from solkit.core import Device, Occupancy, Requests

_WHOLE, _WHOLE_UNEVEN = 16, 48
"""Programs followed lane by lane; and of kernels where loaded values decide who works."""
_CORNERS = 1 << 12
"""Programs followed by their corners."""
_SPREAD = 1 << 10
"""Programs spread over a larger grid that are followed by their corners, too."""
_KEPT = 1 << 18
"""Elements of a tensor over all followed programs, where it is kept whole: tens of ms an op."""
_FEWEST = 1 << 6

Array = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True, eq=False)
class _Followed:
    """A launch, followed in both ways.

    Attributes:
        function: the kernel.
        counts: of its accesses.
        sink: of the programs that were followed whole.
        operations: that access memory in any program.
        programs: those followed by their corners.
        guesses: assumptions.
        is_complete: as in `solkit.core.Requests`.
        scattered: values with which an access goes to several places that memory names.
        phases: of each operation, as `_loop_phases` numbers them.
        depths: loops around each operation.
        staged: loads that a later step of their loop stores to shared memory.
        outside: of accesses that are known to leave their storage, by how many bytes.
    """

    function: Function
    counts: LaunchCounts
    sink: Whole
    operations: tuple[Operation, ...]
    programs: TTGIRInterpreter
    guesses: tuple[str, ...]
    is_complete: bool
    scattered: frozenset[str]
    phases: Mapping[Operation, int]
    depths: Mapping[Operation, int]
    staged: frozenset[Operation]
    outside: Mapping[Operation, int]


def requests_of(
    ttgir: str,
    ptx: str,
    arguments: Mapping[str, Argument],
    grid: tuple[int, int, int],
    device: Device,
    occupancy: Occupancy,
    shared_bytes: int,
    widths: Widths | None = None,
) -> Requests:
    """Follow a kernel.

    Args:
        ttgir: the compiler's last IR before LLVM.
        ptx: of the same compile; empty for a kernel that was only lowered: widths of accesses,
            shared memory and instructions are then estimated.
        arguments: by parameter.
        grid: programs in x, y and z.
        device: a target; only its compute capability and SM count matter.
        occupancy: of the launch.
        shared_bytes: shared memory of a block.
        widths: of accesses, where the compiler writes other assembly than PTX.

    Raises:
        ValueError: the IR is not understood.
    """
    widths = vector_widths(ptx) if ptx else widths
    followed = _follow_launch(parse_module(ttgir), widths, arguments, grid)
    sites = [
        site
        for operation in followed.operations
        for site in _by_storage(_operation_counts(operation, followed), followed.programs)
    ]
    function, executions, programs = followed.function, _executions(followed), math.prod(grid)
    code = function, executions, programs
    shared = shared_traffic(ptx, *code) if ptx else estimated_shared_traffic(*code)
    steps, loops = _load_steps(followed), _iterations(function, executions)
    counts = followed.counts
    mean = counts.mean(steps)
    return Requests(
        **memory_requests(sites, counts.together, shared_bytes, occupancy, device),
        operations=operations_of(function, executions),
        l1_wavefronts=sum(round(site.totals["lines"]) for site in sites),
        steps=mean,
        imbalance=float(steps.max() / mean) if steps.any() else 1.0,
        unevenness=unevenness(steps, programs, device, counts.mean(np.maximum(steps, 1.0))),
        iterations=sum(n for _, n in loops) / max(sum(n for n, _ in loops), 1) / programs,
        iterations_by_depth=tuple(runs / max(size, 1) / programs for size, runs in loops),
        chain_cycles=chain_cycles(function, executions) / programs,
        shared=shared.accesses,
        tensor_shared_bytes=round(tensor_shared_bytes(function, executions)),
        barriers=shared.barriers / programs,
        instructions=shared.instructions / programs,
        programs_sampled=counts.few.programs,
        is_complete=followed.is_complete,
        guesses=(*followed.guesses, *shared.guesses),
    )


def _follow_launch(
    function: Function,
    widths: Widths | None,
    arguments: Mapping[str, Argument],
    grid: tuple[int, int, int],
) -> _Followed:
    values = relevant_values(function.blocks)
    many = _follow_by_corners(function, arguments, grid, values)
    wide, coarse = many.wide, many.programs
    executions = [wide.counters.by_key[operation, "made"] for operation in wide.recorder.extents]
    uneven = not steering_values(function.blocks).isdisjoint(from_memory(function.blocks))
    count = _WHOLE_UNEVEN if uneven else _WHOLE
    chosen = representative(count, wide.counters.programs, executions)
    few = Counters(len(chosen))
    sink = Whole(few, widths, function.num_warps, lambda: mask_runs(function))
    fine = TTGIRInterpreter(function, arguments, grid, many.numbers[chosen], sink, few, values)
    fine.run()
    guesses = {**many.guesses, **fine.guesses}
    return _Followed(
        function=function,
        counts=LaunchCounts(
            few=few,
            many=many.corners.counters,
            wide=wide.counters,
            chosen=chosen,
            scale=many.scale,
            weights=many.weights,
            extents=many.corners.recorder,
            contention=sink.contention,
        ),
        sink=sink,
        operations=tuple({**many.corners.recorder.extents, **wide.recorder.extents}),
        programs=coarse,
        guesses=tuple(guesses),
        is_complete=many.is_whole and not guesses,
        scattered=scattered_values(function, coarse.distinct_values()),
        phases=_loop_phases(function),
        depths={operation: depth for _, operation, depth in function.walk()},
        staged=staged_loads(function),
        outside={} if uneven or guesses else _bytes_outside_storages(coarse, arguments, values),
    )


@dataclass(frozen=True, eq=False)
class _Many:
    """Programs followed by their corners.

    Attributes:
        corners: where the first make their accesses.
        programs: the first.
        wide: the same of programs that represent the launch.
        numbers: of the wide.
        weights: programs of the launch that each of the wide stands for.
        scale: programs of the launch over the first, of those that do anything.
        is_whole: whether the first are all of those.
        guesses: assumptions.
    """

    corners: Corners
    programs: TTGIRInterpreter
    wide: Corners
    numbers: npt.NDArray[np.int64]
    weights: float | Array
    scale: float
    is_whole: bool
    guesses: Mapping[str, None]


def _sample_programs(
    function: Function,
    arguments: Mapping[str, Argument],
    grid: tuple[int, int, int],
    values: RelevantValues,
) -> Sample:
    """Choose the first programs, and some that represent all; these may be the same."""
    count = math.prod(grid)
    affordable = max(_KEPT // _largest_tensor(function, values.whole), _FEWEST)
    first: npt.NDArray[np.int64] = np.arange(min(count, _CORNERS, affordable))
    if count == len(first):
        return Sample(first, first, 1.0, 1.0, True)
    most = len(first), min(_SPREAD, affordable)
    wide = spread_out(most[1], count)
    weight, scale = count / len(wide), count / len(first)
    sample = ragged_sample(function, arguments, grid, *most, values.whole)
    return sample or Sample(first, wide, weight, scale, False)


def _follow_by_corners(
    function: Function,
    arguments: Mapping[str, Argument],
    grid: tuple[int, int, int],
    values: RelevantValues,
) -> _Many:
    """Follow the first programs, and those that represent all."""
    sample = _sample_programs(function, arguments, grid, values)
    numbers, weights, scale = sample.wide, sample.weights, sample.scale
    corners, programs = _by_corners(function, arguments, grid, sample.first, values)
    wide, guesses = corners, programs.guesses
    if numbers is not sample.first:
        wide, scattered = _by_corners(function, arguments, grid, numbers, values)
        guesses = {**guesses, **scattered.guesses}
        if _more_storages(wide, corners):  # the first programs do not show where all go
            order = np.random.default_rng(0).permutation(len(numbers))
            numbers = numbers[order]
            weights = weights if isinstance(weights, float) else weights[order]
            wide, programs = _by_corners(function, arguments, grid, numbers, values)
            corners, scale = wide, float(np.mean(weights))
    return _Many(corners, programs, wide, numbers, weights, scale, sample.is_whole, guesses)


def _bytes_outside_storages(
    coarse: TTGIRInterpreter, arguments: Mapping[str, Argument], values: RelevantValues
) -> Mapping[Operation, int]:
    """Return how far accesses are known to leave their storage, in bytes.

    Places that come from memory are left out: what is there when the kernel runs is not known.
    """
    function, grid = coarse.function, coarse.grid
    followed = [coarse]
    if math.prod(grid) > len(coarse.numbers):  # what leaves a storage does so at its ends
        followed.append(_by_corners(function, arguments, grid, ends_of(grid), values)[1])
    suspects = {int(p.numbers[at]) for p in followed for at in _corners_of(p).suspects}
    if suspects:
        chosen = np.array(sorted(suspects))
        followed.append(_by_corners(function, arguments, grid, chosen, values, whole=True)[1])
    computed = from_memory(function.blocks)
    outside_bytes: dict[Operation, int] = {}
    for corners in (_corners_of(programs) for programs in followed if not programs.is_assuming):
        for operation, reached in corners.outside.items():
            if operation.operands[0] not in computed:
                outside_bytes[operation] = max(reached, outside_bytes.get(operation, 0))
    return outside_bytes


def _corners_of(programs: TTGIRInterpreter) -> Corners:
    assert isinstance(programs.sink, Corners)
    return programs.sink


def _more_storages(some: Corners, others: Corners) -> bool:
    """Tell whether an access points into a storage where others do not make it."""
    return any(
        operation in others.recorder.extents
        and not _storage_places(extent)
        <= _storage_places(others.recorder.extents[operation]) | {-1}
        for operation, extent in some.recorder.extents.items()
    )


def _storage_places(extent: Extent) -> set[int]:
    return set(np.unique((extent.high - 1) >> ADDRESS_BITS).tolist())


def _by_corners(
    function: Function,
    arguments: Mapping[str, Argument],
    grid: tuple[int, int, int],
    numbers: npt.NDArray[np.int64],
    values: RelevantValues,
    whole: bool = False,
) -> tuple[Corners, TTGIRInterpreter]:
    counts = Counters(len(numbers))
    corners = Corners(counts)
    how = counts, values, not whole
    programs = TTGIRInterpreter(function, arguments, grid, numbers, corners, *how)
    corners.sizes = programs.storages.sizes
    programs.run()
    return corners, programs


def _largest_tensor(function: Function, whole: frozenset[str]) -> int:
    """Count elements of the largest of some values."""
    sizes = [
        math.prod(operation.result_type.shape)
        for _, operation, _ in function.walk()
        if whole and len(operation.results) == 1 and operation.results[0] in whole
    ]
    return max(sizes, default=1)


def _operation_counts(operation: Operation, followed: _Followed) -> AccessCounts:
    low = int(followed.counts.extent(operation).low.max())
    place = low >> ADDRESS_BITS if low >= 0 else followed.programs.place_of(operation)
    storage = followed.programs.storages.at_place(place)
    path = "staged" if operation in followed.staged else access_path(operation)
    return followed.counts.of_access(
        operation,
        kind=access_kind(operation),
        path=path,
        argument=followed.programs.names.get(place, ""),
        line=str(operation.places[0]) if operation.places else "",
        vector_bytes=followed.sink.vector_bytes(operation) if path != "tma" else 0,
        phase=followed.phases[operation],
        storage_bytes=storage.storage_bytes if storage else 0,
        gathered=not followed.scattered.isdisjoint(operation.operands),
        depth=followed.depths[operation],
        modifiers=ttgir_modifiers(
            operation.name, operation.text, _is_result_used(operation, followed.function)
        ),
        outside_bytes=followed.outside.get(operation, 0),
    )


def _is_result_used(operation: Operation, function: Function) -> bool:
    """Tell whether any operation uses its result."""
    results = set(operation.results)
    return any(not results.isdisjoint(other.operands) for _, other, _ in function.walk())


def _by_storage(site: AccessCounts, programs: TTGIRInterpreter) -> Iterator[AccessCounts]:
    """Yield an access whose pointer depends on the program, by the storage that it points into."""
    places = np.where(site.low >= 0, (site.high - 1) >> ADDRESS_BITS, -1)
    places_used = np.unique(places[places >= 0])
    if len(places_used) < 2:
        yield site
        return
    executions = site.per_program.sum()
    for place in places_used.tolist():
        there = places == place
        share = float(site.per_program[there].sum() / executions) if executions else 0.0
        storage = programs.storages.at_place(place)
        yield replace(
            site,
            argument=programs.names.get(place, ""),
            storage_bytes=storage.storage_bytes if storage else 0,
            executions=site.executions * share,
            totals={name: amount * share for name, amount in site.totals.items()},
            low=np.where(there, site.low, -1),
            high=np.where(there, site.high, -1),
            per_program=site.per_program * there,
            moves=site.moves * there,
            moved=site.moved * there,
        )


def _loop_phases(function: Function) -> dict[Operation, int]:
    """Return the number of each operation's outermost loop; code between loops has one too."""
    phases: dict[Operation, int] = {}
    number = 0
    for block in function.blocks:
        for outer in block.operations:
            loops = bool(outer.blocks) and outer.name != "scf.if"
            number += loops
            phases[outer] = number
            phases |= {inner: number for body in outer.blocks for inner in body.walk()}
            number += loops
    return phases


def _load_steps(followed: _Followed) -> Array:
    counts = followed.counts.wide.by_key
    loads = (
        (followed.phases[operation], counts[operation, "runs"])
        for operation in followed.operations
        if access_kind(operation) == "load" and (operation, "runs") in counts
    )
    return longest_loads(loads, followed.counts.wide.programs)


def _iterations(function: Function, executions: Mapping[Any, float]) -> list[tuple[int, float]]:
    """Count operations of bodies of loops, and their executions, by the loops around them."""
    by_depth: list[tuple[int, float]] = []
    for body, depth in _loop_bodies(function.blocks, 0):
        by_depth += [(0, 0.0)] * (depth - len(by_depth))
        size, runs = by_depth[depth - 1]
        here = len(body.operations)
        by_depth[depth - 1] = size + here, runs + here * executions.get(body, 0.0)
    return by_depth


def _loop_bodies(blocks: Iterable[Block], depth: int) -> Iterator[tuple[Block, int]]:
    """Yield the bodies of loops, with how many loops each is in."""
    for operation in (operation for block in blocks for operation in block.operations):
        inside = depth + (operation.name in ("scf.for", "scf.while"))
        if inside > depth:
            yield from ((body, inside) for body in operation.blocks)
        yield from _loop_bodies(operation.blocks, inside)


def _executions(followed: _Followed) -> Mapping[Any, float]:
    """Count how often each block of the code runs, over the launch."""
    return {
        block: followed.counts.over_launch(numbers)
        for block, numbers in followed.counts.wide.by_key.items()
        if not isinstance(block, tuple)
    }
