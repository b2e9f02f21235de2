"""Features that the surrogate reads: named numbers, from facts, problem and device alone.

One function, `all_features`, serves every depth. What a depth does not know is NaN, which trees
handle. Times and amounts enter as base-2 logarithms, and where possible as ratios: to the speed of
light, to what the device can hold. A device is its specification, never its name.

The groups, as `GROUPS` names them:

===========  =====================================================================================
problem      speed of light by resource, compulsory traffic and operations, sizes
device       ceilings, SMs, clock, L2
geometry     blocks, warps, stages, bytes and operations that a block gets, waves, widths
tiles        what the kernel's text says of a block: traffic, products, trips, a rough time
model        the modelled time over the speed of light, and each term's share of it
machine      registers, spills, shared memory, occupancy, instruction mix; estimated if lowered
requests     accesses and their efficiency, traffic, loops, imbalance, barriers, atomics
params       named parameters: numbers, and strings and booleans one by one
===========  =====================================================================================

What takes a compiler to know (model, machine, requests) is in
`solkit.surrogate.compiled_features`. The candidates of one call share problem and device. Geometry
and parameters are computed for all of them at once (`captured_features`); what depends on facts,
one by one.
"""

from __future__ import annotations

import functools
import math
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeGuard

import numpy as np
from numpy.typing import NDArray

from solkit.core import Device, KernelAnalysis, Value
from solkit.surrogate.ast_interpreter import Call, Code
from solkit.surrogate.captured_features import (
    MOVED,
    ROUGH,
    Setting,
    combine_launches,
    tile_features,
)
from solkit.surrogate.compiled_features import SMALL, Features, bounded_log2, compiled_features

__all__ = [
    "GROUPS",
    "ROUGH_GAP",
    "Array",
    "Candidates",
    "Columns",
    "Launches",
    "Problem",
    "all_features",
    "captured_features",
    "feature_group",
    "feature_matrix",
    "rough_log2_factor",
]

Array = NDArray[Any]

Columns = dict[str, Array]
"""Values of all candidates, (candidates,) each, by name; the part before the dot is the group."""

GROUPS = ("problem", "device", "geometry", "tiles", "model", "machine", "requests", "params")

ROUGH_GAP = "tiles.all_gap"
"""The rough time of all launches over the speed of light, in log2: `captured_features`."""

_SIZES = 4  # of a shape, the largest
_NUMBERS = 4  # of the compile-time constants, the largest
_LAUNCHES = 4  # of a call that are followed, the largest
_MOST_GAP = 6.0  # of the rough time
_WARP = 32


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
class Launches:
    """The main launch of each candidate, as arrays of (candidates,).

    The main launch is the one of its own that takes longest, or before that is known the largest;
    operators of PyTorch have no blocks or warps that are known.

    Attributes:
        grid: blocks in x, y and z, (candidates, 3); 0 where there is no launch of its own.
        num_warps, num_stages, num_ctas: warps of a block, pipeline stages, blocks of a cluster.
        launches: launches of one call.
        kernels: different ones.
        widest_bytes, narrowest_bytes: of the elements that its pointers point to; NaN if unknown.
        constants: numbers that its code was compiled with, by name; NaN where it has none.
        flags: texts and booleans likewise; ``None`` where it has none.
        types: of its arguments, in Triton's notation, by name; ``None`` where it has none.
        code: the `solkit.surrogate.ast_interpreter.Code` that each runs; ``None`` if unknown.
        count: how often a call makes it; ``None``: once.
        further: the next largest launches of its own, for what all do together.
    """

    grid: Array
    num_warps: Array
    num_stages: Array
    num_ctas: Array
    launches: Array
    kernels: Array
    widest_bytes: Array
    narrowest_bytes: Array
    constants: Mapping[str, Array] = field(default_factory=dict)
    flags: Mapping[str, Array] = field(default_factory=dict)
    types: Mapping[str, Array] = field(default_factory=dict)
    code: Array | None = None
    count: Array | None = None
    further: Sequence[Launches] = ()


@dataclass(frozen=True)
class Candidates:
    """Candidates for one problem on one device.

    Attributes:
        kernels: the launches of each, at whichever depth they were analysed.
        params: tuning parameters of each.
        sources: the text of each one's file; empty if unknown.
    """

    kernels: Sequence[Sequence[KernelAnalysis]]
    params: Sequence[Mapping[str, Value]]
    sources: Sequence[str] = ()


def all_features(problem: Problem, device: Device, candidates: Candidates) -> Columns:
    """Return the features of candidates for one problem.

    Args:
        problem: what they compute.
        device: where.
        candidates: what is known of them.

    Returns:
        Columns by name; what is unknown is NaN.
    """
    launches = _largest_launches(candidates.kernels, candidates.sources)
    columns = captured_features(problem, device, launches, _columns_by_name(candidates.params))
    deep = [
        compiled_features(problem, device, kernels, next(iter(_rank_launches(kernels)), None))
        for kernels in candidates.kernels
    ]
    names = dict.fromkeys(name for row in deep for name in row)
    return columns | {name: np.array([row.get(name, math.nan) for row in deep]) for name in names}


def captured_features(
    problem: Problem, device: Device, launches: Launches, params: Mapping[str, Array]
) -> Columns:
    """Return the features that need no compiler, of all candidates at once.

    Args:
        problem: what they compute.
        device: where.
        launches: as arrays of (candidates,).
        params: arrays of (candidates,) by parameter, of numbers, booleans or texts; ``None`` or NaN
            where a candidate lacks it.
    """
    number = len(launches.num_warps)
    shared = _problem_features(problem, device) | _device_features(device)
    columns = {name: np.full(number, value) for name, value in shared.items()}
    per_launch = _geometry_features(problem, device, launches) | _parameter_features(
        params, launches
    )
    return columns | per_launch | _tile_features(problem, device, launches)


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
    sizes = [float(n) for n in problem.shape.values() if _is_number(n)]
    for place, size in enumerate(sorted(sizes, reverse=True)[:_SIZES]):
        columns[f"problem.size_{place}"] = bounded_log2(size)
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


def _geometry_features(problem: Problem, device: Device, launches: Launches) -> Columns:
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
) -> Launches:
    ranked = [_rank_launches(candidate) for candidate in kernels]
    most = min(max(map(len, ranked), default=0), _LAUNCHES) if sources else 1
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
) -> Launches:
    """Return one launch of each candidate."""
    shapes = [
        (*main.launch.grid, main.launch.num_warps, main.launch.num_stages, main.launch.num_ctas)
        if main
        else (0,) * 6
        for main in mains
    ]
    geometry = np.array(shapes, float).reshape(len(mains), 6)
    widths = np.array([_pointer_widths(main) for main in mains], float).reshape(len(mains), 2)
    constants = [main.launch.constants if main else {} for main in mains]
    code: Array = np.full(len(mains), None, object)
    if sources:
        code[:] = [
            Code(source, main.launch.name) if main and source else None
            for main, source in zip(mains, sources, strict=True)
        ]
    return Launches(
        geometry[:, :3],
        geometry[:, 3],
        geometry[:, 4],
        geometry[:, 5],
        np.array(
            [sum(kernel.launch.count for kernel in candidate) for candidate in kernels], float
        ),
        np.array([len(candidate) for candidate in kernels], float),
        widths[:, 0],
        widths[:, 1],
        _columns_by_name(
            [{k: float(v) for k, v in mapping.items() if _is_number(v)} for mapping in constants]
        ),
        _columns_by_name(
            [{k: v for k, v in mapping.items() if not _is_number(v)} for mapping in constants]
        ),
        _columns_by_name([main.launch.signature if main else {} for main in mains]),
        code,
        np.array([main.launch.count if main else 0 for main in mains], float),
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


def _tile_features(problem: Problem, device: Device, launches: Launches) -> Columns:
    """Return what the code says of a block of the main launch, and of all launches together."""
    if launches.code is None:
        return {}
    parts = (launches, *launches.further)
    settings = [_launch_setting(problem, device, part) for part in parts]
    tile_columns = [
        _tiles_of_launch(problem, part, setting)
        for part, setting in zip(parts, settings, strict=True)
    ]
    if not tile_columns[0]:
        return {}
    pairs = [(part, columns) for part, columns in zip(parts, tile_columns, strict=True) if columns]
    counts = [
        np.ones(len(part.num_warps)) if part.count is None else part.count for part, _ in pairs
    ]
    combined = combine_launches([columns for _, columns in pairs], counts, settings[0])
    return {
        name: column for name, column in tile_columns[0].items() if name not in (ROUGH, MOVED)
    } | combined


def _launch_setting(problem: Problem, device: Device, launches: Launches) -> Setting:
    return Setting(
        device,
        problem.sol_ms / 1e3,
        problem.read_bytes,
        problem.write_bytes,
        launches.grid.prod(axis=1),
        launches.num_warps,
        launches.num_stages,
    )


def _tiles_of_launch(problem: Problem, launches: Launches, setting: Setting) -> Columns:
    """Return the tiles of one launch of each candidate, by the function that some of them run."""
    columns: Columns = {}
    rows_of: defaultdict[Code, list[int]] = defaultdict(list)
    for row, code in enumerate(launches.code if launches.code is not None else ()):
        if code is not None:
            rows_of[code].append(row)
    for code, places in rows_of.items():
        rows = np.array(places)
        call = _call_of_rows(problem, launches, code, rows)
        for name, column in tile_features(setting[rows], call).items():
            columns.setdefault(name, np.full(len(launches.num_warps), np.nan))[rows] = column
    return columns


def _call_of_rows(problem: Problem, launches: Launches, code: Code, rows: Array) -> Call:
    sizes = {name: float(n) for name, n in problem.shape.items() if _is_number(n)}
    values = {name: column[rows] for name, column in launches.constants.items()}
    flags = {name: column[rows] for name, column in launches.flags.items()}
    values = {name: column for name, column in values.items() if not np.isnan(column).all()}
    values |= {
        name: _flag_numbers(column)
        for name, column in flags.items()
        if any(value is not None for value in column)
    }
    widths, shapes = {}, {}
    for name, column in launches.types.items():
        types = column[rows]
        pointer = next((type_text for type_text in types if type_text is not None), "")
        if pointer.startswith(("*", "tensordesc<")):
            widths[name] = _element_bytes(pointer)
        if pointer.startswith("tensordesc<"):
            shapes[name] = tuple(
                np.array([_descriptor_shape(type_text) for type_text in types], float).T
            )
    return Call(code, sizes | values, widths, shapes, tuple(launches.grid[rows].T))


def _flag_numbers(column: Array) -> Array:
    """Return booleans as numbers, texts as they are."""
    if any(isinstance(value, str) for value in column):
        return np.array(["" if value is None else str(value) for value in column], object)
    return np.array([math.nan if value is None else float(value) for value in column])


@functools.cache
def _descriptor_shape(descriptor: str) -> tuple[float, ...]:
    """Parse ``"tensordesc<bf16[64, 32]>"`` to (64, 32)."""
    return tuple(float(n) for n in re.findall(r"\d+", descriptor.partition("[")[2]))


# ------------------------------------------------------------------------------------ parameters


def _parameter_features(params: Mapping[str, Array], launches: Launches) -> Columns:
    columns: Columns = {}
    for name, column in params.items():
        if column.dtype.kind in "biuf":
            values = column.astype(float)
            columns[f"params.{name}"] = (
                values if column.dtype.kind == "b" else _bounded_log2(values)
            )
            continue
        numbers, texts = _split_numbers_and_texts(column)
        if not np.isnan(numbers).all():
            columns[f"params.{name}"] = numbers
        for text in sorted(set(texts) - {None}):
            columns[f"params.{name}={text}"] = np.where(texts == text, 1.0, np.nan)
    if launches.constants:
        constants = np.stack(
            [np.asarray(constant, float) for constant in launches.constants.values()], axis=1
        )
        ordered = -np.sort(-np.where(constants > 1, constants, 0.0), axis=1)
        for place in range(min(_NUMBERS, ordered.shape[1])):
            column = ordered[:, place]
            columns[f"params.constant_{place}"] = np.where(
                column > 1, _bounded_log2(np.maximum(column, 1)), np.nan
            )
    return columns


def _split_numbers_and_texts(column: Array) -> tuple[Array, Array]:
    """Split a parameter's column into numbers, as logarithms, and texts, (candidates,) each."""
    numbers = [
        float(value)
        if isinstance(value, bool)
        else bounded_log2(value)
        if _is_number(value)
        else math.nan
        for value in column
    ]
    texts = [value if isinstance(value, str) else None for value in column]
    return np.array(numbers), np.array(texts, object)


def _columns_by_name(mappings: Sequence[Mapping[str, Value]]) -> dict[str, Array]:
    """Turn mappings into columns; ``None`` where one lacks a name, NaN if all are numbers."""
    names = list(dict.fromkeys(name for mapping in mappings for name in mapping))
    columns = {}
    for name in names:
        values = [mapping.get(name) for mapping in mappings]
        if all(value is None or _is_number(value) for value in values):
            columns[name] = np.array([math.nan if v is None else v for v in values], float)
        else:
            columns[name] = np.array(values, object)
    return columns


def _bounded_log2(values: Array) -> Array:
    return np.asarray(np.log2(np.maximum(values, SMALL)))


def _is_number(value: object) -> TypeGuard[int | float]:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _pointer_widths(main: KernelAnalysis | None) -> tuple[float, float]:
    """Return the most and the fewest bytes of an element behind a pointer of a launch."""
    types = main.launch.signature.values() if main else ()
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
