"""Features that the surrogate reads: named numbers, from facts, problem and device alone.

One function, `features_of_problems`, serves every depth. What a depth does not know is NaN, which
trees handle. Times and amounts enter as base-2 logarithms, and where possible as ratios: to the
speed of light, to what the device can hold. A device is its specification, never its name.

The groups, as `GROUPS` names them:

===========  =====================================================================================
problem      speed of light by resource, compulsory traffic and operations
device       ceilings, SMs, clock, L2
geometry     blocks, warps, stages, bytes and operations that a block gets, waves, widths, sizes
tiles        what the kernel's program says of a block: traffic, products, trips, a rough time
model        the modelled time over the speed of light, and each term's share of it
machine      registers, spills, shared memory, occupancy, instruction mix; estimated if lowered
requests     accesses and their efficiency, traffic, loops, imbalance, barriers, atomics
params       compile-time constants: the largest numbers, how many flags are set
===========  =====================================================================================

What takes a compiler to know (model, machine, requests) is in
`solkit.surrogate.compiled_features`. The candidates of one task share problem and device. Geometry
and parameters are computed for all of them at once; what depends on facts, one by one. No feature
depends on a name that someone chose: of an argument, a constant, a function.
"""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeGuard, TypeVar

import numpy as np
from numpy.typing import NDArray

from solkit.core import Device, KernelAnalysis, Launch, TensorLayout, Value
from solkit.surrogate.captured_features import (
    MOVED,
    ROUGH,
    Setting,
    combine_launches,
    tile_features,
)
from solkit.surrogate.compiled_features import SMALL, Features, bounded_log2, compiled_features
from solkit.surrogate.launch_calls import bindings_of_launch, calls_of_launches, tensors_of_launch

Array = NDArray[Any]

Columns = dict[str, Array]
"""Values of all candidates, (candidates,) each, by name; the part before the dot is the group."""

GROUPS = ("problem", "device", "geometry", "tiles", "model", "machine", "requests", "params")

_BY_LAUNCH = (
    *("grid", "num_warps", "num_stages", "num_ctas"),
    *("widest_bytes", "narrowest_bytes", "count"),
)
"""Arrays of `_Launches` that differ between the launches of a candidate."""

ROUGH_GAP = "tiles.all_gap"
"""The rough time of all launches over the speed of light, in log2."""

_SIZES = 4  # of a shape, the largest
_NUMBERS = 4  # of the compile-time constants, the largest
_LAUNCHES = 4  # of a call that are followed, the largest
_MOST_GAP = 6.0  # of the rough time
_WARP = 32
_Measured = TypeVar("_Measured")


@dataclass(frozen=True)
class Problem:
    """Problem at one shape on one device, as far as the surrogate knows it.

    Attributes:
        sol_ms: the roofline.
        limiter: the resource behind it.
        operations: by pipe, at the least.
        read_bytes, write_bytes: compulsory DRAM traffic.
        shape: every size.
    """

    sol_ms: float
    limiter: str
    operations: Mapping[str, float] = field(default_factory=dict)
    read_bytes: float = 0.0
    write_bytes: float = 0.0
    shape: Mapping[str, Value] = field(default_factory=dict)


@dataclass(frozen=True)
class _Launches:
    """The main launch of each candidate, as arrays of (candidates,).

    The main launch is the one of its own that takes longest: by the kernel model, before that is
    known by the rough time of its program, else the largest. Operators of PyTorch have no blocks or
    warps that are known.

    Attributes:
        grid: blocks in x, y and z, (candidates, 3); 0 where there is no launch of its own.
        num_warps, num_stages, num_ctas: warps of a block, pipeline stages, blocks of a cluster.
        launches: launches of one call.
        kernels: different ones.
        widest_bytes, narrowest_bytes: of the elements that its pointers point to; NaN if unknown.
        records: the `solkit.core.Launch` of each, ``None`` where it has none.
        sources: the text of each one's file, for launches that record no program.
        count: how often a call makes it.
        modelled: where the kernel model said which launch takes longest.
        further: the other launches of its own, for what all do together.
    """

    grid: Array
    num_warps: Array
    num_stages: Array
    num_ctas: Array
    launches: Array
    kernels: Array
    widest_bytes: Array
    narrowest_bytes: Array
    records: Sequence[Launch | None]
    sources: Sequence[str]
    count: Array
    modelled: Array
    further: Sequence[_Launches] = ()


@dataclass(frozen=True)
class Candidates:
    """Candidates for one problem on one device.

    Attributes:
        kernels: the launches of each, at whichever depth they were analysed.
        sources: the text of each one's file; empty if unknown.
    """

    kernels: Sequence[Sequence[KernelAnalysis]]
    sources: Sequence[str] = ()


def features_of_problems(tasks: Sequence[tuple[Problem, Device, Candidates]]) -> list[Columns]:
    """Return the features of candidates for some problems.

    Programs are followed together where several problems' candidates run the same.

    Args:
        tasks: what is computed, where, and what is known of the candidates.

    Returns:
        Columns by name of each task; what is unknown is NaN.
    """
    if not tasks:
        return []
    launches = [
        _largest_launches(candidates.kernels, candidates.sources) for _, _, candidates in tasks
    ]
    pairs = [(problem, device) for problem, device, _ in tasks]
    tiles = _tile_features([(*pair, part) for pair, part in zip(pairs, launches, strict=True)])
    return [
        _launch_features(problem, device, main)
        | columns
        | _deep_features(problem, device, candidates)
        for (problem, device, candidates), (main, columns) in zip(tasks, tiles, strict=True)
    ]


def _deep_features(problem: Problem, device: Device, candidates: Candidates) -> Columns:
    """Return what a compiler tells of candidates for one problem."""
    deep = [
        compiled_features(problem, device, kernels, next(iter(_rank_launches(kernels)), None))
        for kernels in candidates.kernels
    ]
    names = dict.fromkeys(name for row in deep for name in row)
    return {name: np.array([row.get(name, math.nan) for row in deep]) for name in names}


def _launch_features(problem: Problem, device: Device, launches: _Launches) -> Columns:
    """Return what a launch says without its program."""
    number = len(launches.num_warps)
    shared = _problem_features(problem, device) | _device_features(device)
    columns = {name: np.full(number, value) for name, value in shared.items()}
    per_launch = _geometry_features(problem, device, launches)
    per_launch |= _size_features(problem, launches) | _constant_features(launches)
    return columns | per_launch


def rough_log2_factor(gap: Array) -> Array:
    """Estimate how far above the speed of light a launch is, before anything is learned.

    Args:
        gap: the column `ROUGH_GAP`, (candidates,): the rough time over the speed of light, in
            log2; NaN if the code is not known.

    Returns:
        log2 of a factor, (candidates,). The root of the gap, as the rough time is often too long.
    """
    return np.asarray(np.nan_to_num(np.clip(gap.astype(float), 0, _MOST_GAP)) / 2)


def feature_group(name: str) -> str:
    """Return the group of a feature, from `GROUPS`."""
    return name.partition(".")[0]


def feature_matrix(columns: Columns, names: Sequence[str]) -> Array:
    """Return the columns as an array of (candidates, names), float32; what is missing is NaN."""
    number = len(next(iter(columns.values()))) if columns else 0
    values = np.full((number, len(names)), np.nan, np.float32)
    for place, name in enumerate(names):
        if name in columns:
            values[:, place] = columns[name]
    return values


# ------------------------------------------------------------------------------- problem, device


def _problem_features(problem: Problem, device: Device) -> Features:
    moved = problem.read_bytes + problem.write_bytes
    flops = sum(problem.operations.values())
    tensor = sum(n for pipe, n in problem.operations.items() if pipe.startswith("tensor."))
    columns = {
        "problem.sol_us": bounded_log2(problem.sol_ms * 1e3),
        "problem.read_bytes": bounded_log2(problem.read_bytes),
        "problem.write_share": problem.write_bytes / moved if moved else 0.0,
        "problem.l2_fill": bounded_log2(moved / device.l2_bytes),
        "problem.operations": bounded_log2(flops),
        "problem.intensity": bounded_log2(flops / moved) if moved else 0.0,
        "problem.tensor_share": tensor / flops if flops else 0.0,
        "problem.sfu_share": problem.operations.get("sfu", 0) / flops if flops else 0.0,
        "problem.fp32_share": problem.operations.get("fp32", 0) / flops if flops else 0.0,
        "problem.limited_by_dram": float(problem.limiter == "dram"),
        "problem.limited_by_tensor": float(problem.limiter.startswith("tensor.")),
    }
    return columns


def _device_features(device: Device) -> Features:
    rates = {name: ceiling.value for name, ceiling in device.ceilings.items()}
    columns = {
        "device.sm_count": float(device.sm_count),
        "device.clock_mhz": device.clock_mhz,
        "device.l2_bytes": bounded_log2(device.l2_bytes),
    }
    for name in ("dram", "l2", "fp32", "tensor.bf16"):
        if name in rates:
            columns[f"device.{name}"] = bounded_log2(rates[name])
    return columns


# -------------------------------------------------------------------------------------- geometry


def _geometry_features(problem: Problem, device: Device, launches: _Launches) -> Columns:
    own = launches.num_warps > 0
    blocks = np.where(own, launches.grid.prod(axis=1), np.nan)
    warps = np.where(own, launches.num_warps, np.nan)
    threads = blocks * warps * _WARP
    moved = problem.read_bytes + problem.write_bytes
    flops = sum(problem.operations.values())
    together = np.minimum(device.limits.threads // (_WARP * warps), device.limits.blocks)
    waves = blocks / (device.sm_count * np.maximum(together, 1))
    columns = {
        "geometry.blocks": _bounded_log2(blocks),
        "geometry.blocks_per_sm": _bounded_log2(blocks / device.sm_count),
        "geometry.grid_y": _bounded_log2(np.where(own, launches.grid[:, 1], np.nan)),
        "geometry.grid_z": _bounded_log2(np.where(own, launches.grid[:, 2], np.nan)),
        "geometry.warps": _bounded_log2(warps),
        "geometry.stages": np.where(own, launches.num_stages, np.nan),
        "geometry.clusters": np.where(own, launches.num_ctas, np.nan),
        "geometry.bytes_per_thread": _bounded_log2(moved / threads),
        "geometry.bytes_per_block": _bounded_log2(moved / blocks),
        "geometry.operations_per_thread": _bounded_log2(flops / threads),
        "geometry.launches": launches.launches,
        "geometry.kernels": launches.kernels,
        "geometry.widest_bytes": launches.widest_bytes,
        "geometry.narrowest_bytes": launches.narrowest_bytes,
        "geometry.least_waves": _bounded_log2(waves),
        "geometry.busy": blocks / device.sm_count / np.ceil(blocks / device.sm_count),
        "geometry.threads_per_sm": _bounded_log2(threads / device.sm_count),
    }
    return {name: np.asarray(column, float) for name, column in columns.items()}


def _largest_launches(
    kernels: Sequence[Sequence[KernelAnalysis]], sources: Sequence[str] = ()
) -> _Launches:
    ranked = [_rank_launches(candidate) for candidate in kernels]
    most = min(max(map(len, ranked), default=0), _LAUNCHES)
    main, *further = (
        _launch_arrays(
            kernels,
            [ordered[place] if place < len(ordered) else None for ordered in ranked],
            sources,
        )
        for place in range(max(most, 1))
    )
    return replace(main, further=further)


def _launch_arrays(
    kernels: Sequence[Sequence[KernelAnalysis]],
    mains: Sequence[KernelAnalysis | None],
    sources: Sequence[str],
) -> _Launches:
    """Return one launch of each candidate."""
    shapes = [
        (*main.launch.grid, main.launch.num_warps, main.launch.num_stages, main.launch.num_ctas)
        if main
        else (0,) * 6
        for main in mains
    ]
    geometry = np.array(shapes, float).reshape(len(mains), 6)
    widths = np.array([_pointer_widths(main) for main in mains], float).reshape(len(mains), 2)
    number, one = len(mains), (len(mains),)
    launches = [sum(kernel.launch.count for kernel in candidate) for candidate in kernels]
    return _Launches(
        geometry[:, :3],
        geometry[:, 3],
        geometry[:, 4],
        geometry[:, 5],
        np.array(launches, float).reshape(one),
        np.array([len(candidate) for candidate in kernels], float),
        widths[:, 0],
        widths[:, 1],
        [main.launch if main else None for main in mains],
        sources or [""] * number,
        np.array([main.launch.count if main else 0 for main in mains], float),
        np.array([main is not None and main.model is not None for main in mains], bool),
    )


def _rank_launches(kernels: Sequence[KernelAnalysis]) -> list[KernelAnalysis]:
    """Return a call's own launches, the main one first."""
    own = [kernel for kernel in kernels if not kernel.launch.library]

    def time_and_size(kernel: KernelAnalysis) -> tuple[float, int]:
        time_ms = kernel.model.time_ms if kernel.model else 0.0
        launch = kernel.launch
        return time_ms * launch.count, math.prod(launch.grid) * launch.num_warps

    return sorted(own, key=time_and_size, reverse=True)


# ----------------------------------------------------------------------------------------- tiles


def _tile_features(
    tasks: Sequence[tuple[Problem, Device, _Launches]],
) -> list[tuple[_Launches, Columns]]:
    """Return the main launches, and what the code says of their blocks and of all launches."""
    parts = [(launches, *launches.further) for _, _, launches in tasks]
    settings = [
        [_launch_setting(problem, device, part) for part in of_task]
        for (problem, device, _), of_task in zip(tasks, parts, strict=True)
    ]
    flat_parts = [part for of_task in parts for part in of_task]
    tiles = iter(
        _tiles_of_launches(flat_parts, [one for task_settings in settings for one in task_settings])
    )
    return [
        _combined_tiles(of_task, [next(tiles) for _ in of_task], of_settings[0])
        for of_task, of_settings in zip(parts, settings, strict=True)
    ]


def _combined_tiles(
    parts: Sequence[_Launches], tile_columns: Sequence[Columns], setting: Setting
) -> tuple[_Launches, Columns]:
    """Return the main launch, its tiles, and what all launches do together."""
    if not tile_columns[0]:
        return parts[0], {}
    pairs = [(part, columns) for part, columns in zip(parts, tile_columns, strict=True) if columns]
    counts = [part.count for part, _ in pairs]
    rough_s = np.array(
        [columns[ROUGH] * count for (_, columns), count in zip(pairs, counts, strict=True)]
    )
    place = _longest_launch(rough_s, parts[0].modelled)
    main = _chosen_columns([columns for _, columns in pairs], place)
    combined = combine_launches([columns for _, columns in pairs], counts, setting)
    own = {name: column for name, column in main.items() if name not in (ROUGH, MOVED)}
    return _chosen_launches([part for part, _ in pairs], place), own | combined


def _longest_launch(rough_s: Array, modelled: Array) -> Array:
    """Return the place of each candidate's main launch by rough times, (launches, candidates).

    The first stays where the kernel model chose it, and where its own rough time is not known.
    """
    longest = np.where(np.isnan(rough_s), -np.inf, rough_s).argmax(axis=0)
    stays = np.isnan(rough_s[0]) | modelled
    return np.where(stays, 0, longest)


def _chosen_columns(columns: Sequence[Columns], place: Array) -> Columns:
    """Return each candidate's columns of the launch at its place."""
    missing, rows = np.full(len(place), np.nan), np.arange(len(place))
    names = dict.fromkeys(name for launch in columns for name in launch)
    return {
        name: np.array([launch.get(name, missing) for launch in columns])[place, rows]
        for name in names
    }


def _chosen_launches(parts: Sequence[_Launches], place: Array) -> _Launches:
    """Return each candidate's launch at its place."""
    if not place.any():
        return parts[0]
    rows = np.arange(len(place))
    arrays = {
        name: np.array([getattr(part, name) for part in parts])[place, rows] for name in _BY_LAUNCH
    }
    records = [parts[at].records[row] for row, at in enumerate(place)]
    return replace(parts[0], records=records, further=(), **arrays)


def _launch_setting(problem: Problem, device: Device, launches: _Launches) -> Setting:
    return Setting.on_device(
        device,
        (problem.sol_ms / 1e3, problem.read_bytes, problem.write_bytes),
        (launches.grid.prod(axis=1), launches.num_warps, launches.num_stages),
    )


def _tiles_of_launches(parts: Sequence[_Launches], settings: Sequence[Setting]) -> list[Columns]:
    """Return the tiles of one launch of each candidate, of all parts by the programs they run."""
    records: list[Launch | None] = []
    sources: list[str] = []
    for part in parts:
        records += part.records
        sources += part.sources
    setting = Setting.joined(settings)
    columns: Columns = {}
    for rows, call in calls_of_launches(records, sources):
        for name, column in tile_features(setting[rows], call).items():
            columns.setdefault(name, np.full(len(records), np.nan))[rows] = column
    ends = np.cumsum([len(part.num_warps) for part in parts])
    return [
        _known_columns(columns, slice(end - len(part.num_warps), end))
        for part, end in zip(parts, ends, strict=True)
    ]


def _known_columns(columns: Columns, rows: slice) -> Columns:
    """Return rows of the columns; of those that the rows' programs fill."""
    parts = {name: column[rows] for name, column in columns.items()}
    return {name: part for name, part in parts.items() if not np.isnan(part).all()}


# --------------------------------------------------------------------------- sizes and constants


def _size_features(problem: Problem, launches: _Launches) -> Columns:
    """Return the largest sizes of what the main launch gets; else of the problem."""
    sizes = sorted((float(n) for n in problem.shape.values() if _is_number(n)), reverse=True)
    of_problem = (*sizes, *(math.nan,) * _SIZES)[:_SIZES]
    tensors = [_tensors(record) for record in launches.records]
    largest = np.array(
        [sizes or of_problem for sizes in _measure_all(tensors, _tensor_sizes)], float
    )
    alignment = np.array(_measure_all(tensors, _least_alignment), float)
    columns = {f"geometry.size_{place}": largest[:, place] for place in range(_SIZES)}
    logarithms = {name: _bounded_log2(column) for name, column in columns.items()}
    return logarithms | {"geometry.alignment": _bounded_log2(alignment)}


def _tensors(launch: Launch | None) -> tuple[TensorLayout, ...]:
    return () if launch is None else tuple(tensors_of_launch(launch))


def _measure_all(
    tensors: Sequence[tuple[TensorLayout, ...]],
    measure: Callable[[Sequence[TensorLayout]], _Measured],
) -> list[_Measured]:
    """Return a measure of each launch's tensors: most launches have the same objects."""
    results: dict[tuple[int, ...], _Measured] = {}
    keys = [tuple(map(id, of_launch)) for of_launch in tensors]
    for key, of_launch in zip(keys, tensors, strict=True):
        if key not in results:
            results[key] = measure(of_launch)
    return [results[key] for key in keys]


def _tensor_sizes(tensors: Sequence[TensorLayout]) -> tuple[float, ...]:
    """Return the largest distinct sizes of the tensors that a call gets or gives."""
    own = [tensor for tensor in tensors if tensor.role != "temporary"] or tensors
    sizes = sorted({size for tensor in own for size in tensor.shape if size > 1}, reverse=True)
    padded = (*map(float, sizes), *(math.nan,) * _SIZES)
    return padded[:_SIZES] if sizes else ()


def _least_alignment(tensors: Sequence[TensorLayout]) -> float:
    """Return the most bytes, up to 16, to which all rows of all tensors are aligned."""
    starts = [tensor.alignment_bytes for tensor in tensors]
    rows = [
        stride * tensor.element_bytes
        for tensor in tensors
        for stride, size in zip(tensor.strides, tensor.shape)
        if stride > 1 and size > 1
    ]
    numbers = [number & -number for number in (*starts, *rows)]
    return float(min(16, *numbers)) if numbers else math.nan


def _constant_features(launches: _Launches) -> Columns:
    """Return the largest numbers that each was compiled with, and how many flags are set."""
    values = np.full((len(launches.num_warps), _NUMBERS), np.nan)
    flags = np.full(len(values), np.nan)
    for row, launch in enumerate(launches.records):
        if launch is None:
            continue
        bound = bindings_of_launch(launch).values()
        constants = [binding.value for binding in bound if binding.kind == "constant"]
        numbers = sorted((float(n) for n in constants if _is_number(n) and n > 1), reverse=True)
        values[row, : len(numbers[:_NUMBERS])] = np.log2(numbers[:_NUMBERS])
        flags[row] = sum(value is True for value in constants)
    columns = {f"params.constant_{place}": values[:, place] for place in range(_NUMBERS)}
    return columns | {"params.flags": flags}


def _bounded_log2(values: Array) -> Array:
    return np.asarray(np.log2(np.maximum(values, SMALL)))


def _is_number(value: object) -> TypeGuard[int | float]:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _pointer_widths(main: KernelAnalysis | None) -> tuple[float, float]:
    """Return the most and the fewest bytes of an element behind a pointer of a launch."""
    return _widths_of_types(tuple(main.launch.signature.values()) if main else ())


@functools.lru_cache(4096)
def _widths_of_types(types: tuple[str, ...]) -> tuple[float, float]:
    widths = [
        _element_bytes(type_text)
        for type_text in types
        if type_text.startswith(("*", "tensordesc<"))
    ]
    return (max(widths), min(widths)) if widths else (math.nan, math.nan)


@functools.cache
def _element_bytes(pointer: str) -> float:
    """Return bytes of what ``"*bf16"`` or ``"tensordesc<fp8e4nv[64, 64]>"`` points to."""
    digits = re.search(r"\d+", pointer)
    return max(int(digits[0]) / 8, 1.0) if digits else 1.0
