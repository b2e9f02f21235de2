"""What the surrogate reads of a candidate: named numbers, from facts, problem and device alone.

One function, `features`, serves every depth. What a depth does not know is left out and becomes
NaN, which trees handle. Times and amounts enter as base-2 logarithms, and where possible as ratios:
to the speed of light, to what the device can hold. A device is its specification, never its name.

The groups, as `GROUPS` names them:

===========  =====================================================================================
problem      speed of light by resource, compulsory traffic and operations, sizes, dtypes
device       ceilings, SMs, clock, L2
geometry     blocks, warps, stages, bytes and operations that a block gets, the last wave
model        the modelled time over the speed of light, and each term's share of it
machine      registers, spills, shared memory, occupancy, the machine code's instruction mix
requests     accesses and their efficiency, traffic, loops, imbalance, barriers, atomics
params       named parameters: numbers, and strings and booleans one by one
===========  =====================================================================================
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeGuard

import numpy as np
from numpy.typing import NDArray

from solkit.core import Access, Depth, Device, KernelAnalysis, Value

__all__ = ["GROUPS", "Array", "Features", "Problem", "features", "group_of", "matrix"]

Array = NDArray[Any]

Features = dict[str, float]
"""Values by name; the name's part before the dot is its group."""

GROUPS = ("problem", "device", "geometry", "model", "machine", "requests", "params")

_SIZES = 4  # of a shape, the largest
_NUMBERS = 4  # of the compile-time constants, the largest
_SMALL = 2.0**-20  # stands for 0 under a logarithm
_WARP = 32
_KINDS = (
    *("fp32", "fp16", "int32", "sfu", "convert", "move", "tensor", "warp", "branch", "barrier"),
    *("global_load", "global_store", "global_atomic", "async_copy", "tma", "shared_load"),
    *("shared_store", "shared_atomic", "local_load", "local_store"),
)
"""Of `solkit.analysis.common.instructions.KINDS`."""
_TERMS = (
    *("dram", "l2", "l1", "shared", "tensor", "fp32", "fp64", "sfu", "int32", "issue"),
    *("latency", "dispatch", "launch", "atomics"),
)


@dataclass(frozen=True)
class Problem:
    """What the surrogate knows of a problem at one shape on one device.

    Attributes:
        sol_ms: the roofline.
        limiter: the resource behind it.
        operations: by pipe, at the least.
        read_bytes, write_bytes: compulsory DRAM traffic.
        shape: every size.
        dtypes: of inputs and outputs, e.g. ``"bfloat16"``.
    """

    sol_ms: float
    limiter: str
    operations: Mapping[str, float] = field(default_factory=dict)
    read_bytes: float = 0.0
    write_bytes: float = 0.0
    shape: Mapping[str, Value] = field(default_factory=dict)
    dtypes: Sequence[str] = ()


def features(
    problem: Problem,
    device: Device,
    kernels: Sequence[KernelAnalysis],
    params: Mapping[str, Value],
) -> Features:
    """The features of one candidate.

    Args:
        problem: what it computes.
        device: where.
        kernels: its launches, at whichever depth they were analysed.
        params: its tuning parameters.

    Returns:
        Values by name; unknown ones are missing.
    """
    found = _problem(problem, device) | _device(device) | _params(params, kernels)
    found |= _model(problem, kernels)
    if any(not kernel.launch.library for kernel in kernels):
        found |= _geometry(problem, device, kernels)
        found |= _machine(device, kernels)
        found |= _requests(problem, kernels)
    return found


def group_of(name: str) -> str:
    """The group of a feature, from `GROUPS`."""
    return name.partition(".")[0]


def matrix(rows: Iterable[Features], names: Sequence[str]) -> Array:
    """The rows as an array of (rows, names), float32; what a row lacks is NaN."""
    nan = math.nan
    listed = [[row.get(name, nan) for name in names] for row in rows]
    return np.array(listed, np.float32).reshape(len(listed), len(names))


def log2(value: float) -> float:
    """Base-2 logarithm, bounded below."""
    return math.log2(max(value, _SMALL))


# ------------------------------------------------------------------------------- problem, device


def _problem(problem: Problem, device: Device) -> Features:
    moved = problem.read_bytes + problem.write_bytes
    flops = sum(problem.operations.values())
    tensor = sum(n for pipe, n in problem.operations.items() if pipe.startswith("tensor."))
    found = {
        "problem.sol_us": log2(problem.sol_ms * 1e3),
        "problem.read_bytes": log2(problem.read_bytes),
        "problem.write_share": problem.write_bytes / moved if moved else 0.0,
        "problem.l2_fill": log2(moved / device.l2_bytes),
        "problem.operations": log2(flops),
        "problem.intensity": log2(flops / moved) if moved else 0.0,
        "problem.tensor_share": tensor / flops if flops else 0.0,
        "problem.sfu_share": problem.operations.get("sfu", 0) / flops if flops else 0.0,
        "problem.fp32_share": problem.operations.get("fp32", 0) / flops if flops else 0.0,
        "problem.limited_by_dram": float(problem.limiter == "dram"),
        "problem.limited_by_tensor": float(problem.limiter.startswith("tensor.")),
    }
    sizes = [float(n) for n in problem.shape.values() if _is_number(n)]
    for place, size in enumerate(sorted(sizes, reverse=True)[:_SIZES]):
        found[f"problem.size_{place}"] = log2(size)
    widths = [_width(name) for name in problem.dtypes]
    if widths:
        found["problem.widest_bytes"], found["problem.narrowest_bytes"] = max(widths), min(widths)
    return found


def _device(device: Device) -> Features:
    rates = {name: ceiling.value for name, ceiling in device.ceilings.items()}
    found = {
        "device.sm_count": float(device.sm_count),
        "device.clock_mhz": device.clock_mhz,
        "device.l2_bytes": log2(device.l2_bytes),
    }
    for name in ("dram", "l2", "fp32", "tensor.bf16"):
        if name in rates:
            found[f"device.{name}"] = log2(rates[name])
    return found


# -------------------------------------------------------------------------------------- geometry


def _geometry(problem: Problem, device: Device, kernels: Sequence[KernelAnalysis]) -> Features:
    main = _main(kernels)
    launch = main.launch
    blocks = math.prod(launch.grid)
    threads = blocks * launch.num_warps * _WARP
    moved = problem.read_bytes + problem.write_bytes
    flops = sum(problem.operations.values())
    found = {
        "geometry.blocks": log2(blocks),
        "geometry.blocks_per_sm": log2(blocks / device.sm_count),
        "geometry.grid_y": log2(launch.grid[1]),
        "geometry.grid_z": log2(launch.grid[2]),
        "geometry.warps": log2(launch.num_warps),
        "geometry.stages": float(launch.num_stages),
        "geometry.clusters": float(launch.num_ctas),
        "geometry.bytes_per_thread": log2(moved / threads),
        "geometry.bytes_per_block": log2(moved / blocks),
        "geometry.operations_per_thread": log2(flops / threads),
        "geometry.launches": float(sum(kernel.launch.count for kernel in kernels)),
        "geometry.kernels": float(len(kernels)),
    }
    if main.occupancy is not None:
        found["geometry.waves"] = log2(main.occupancy.waves)
        found["geometry.tail"] = main.occupancy.tail_efficiency
    return found


def _main(kernels: Sequence[KernelAnalysis]) -> KernelAnalysis:
    """The launch of its own that takes longest; before that is known, the largest.

    PyTorch's operators have no blocks, warps or registers that are known.
    """
    own = [kernel for kernel in kernels if not kernel.launch.library]

    def weight(kernel: KernelAnalysis) -> tuple[float, int]:
        time_ms = kernel.model.time_ms if kernel.model else 0.0
        launch = kernel.launch
        return time_ms * launch.count, math.prod(launch.grid) * launch.num_warps

    return max(own, key=weight)


# ----------------------------------------------------------------------------------------- model


def _model(problem: Problem, kernels: Sequence[KernelAnalysis]) -> Features:
    total_ms = modelled_ms(kernels)
    if total_ms is None:
        return {}
    terms: defaultdict[str, float] = defaultdict(float)
    for kernel in kernels:
        assert kernel.model is not None
        for term in kernel.model.terms:
            terms[term.name.partition(".")[0]] += term.time_ms * kernel.launch.count
    shares = {f"model.{name}": log2(terms[name] / total_ms) for name in _TERMS if name in terms}
    ranked = sorted(terms.values(), reverse=True)
    return shares | {
        "model.gap": log2(total_ms / problem.sol_ms),
        "model.time_us": log2(total_ms * 1e3),
        "model.second": log2(ranked[1] / ranked[0]) if len(ranked) > 1 else log2(0),
    }


def modelled_ms(kernels: Sequence[KernelAnalysis]) -> float | None:
    """The modelled time of a call; ``None`` if a launch has none."""
    if not kernels or any(kernel.model is None for kernel in kernels):
        return None
    return sum(k.model.time_ms * k.launch.count for k in kernels if k.model is not None)


# ----------------------------------------------------------------------------- facts of a launch


def _machine(device: Device, kernels: Sequence[KernelAnalysis]) -> Features:
    main = _main(kernels)
    facts = main.facts
    found: Features = {}
    if facts.registers is not None:
        found["machine.registers"] = float(facts.registers)
        found["machine.spills"] = log2(facts.spills or 0)
    if facts.shared_bytes is not None:
        found["machine.shared"] = facts.shared_bytes / device.limits.shared_bytes
    if main.occupancy is not None:
        found["machine.occupancy"] = main.occupancy.fraction
        found["machine.blocks_per_sm"] = float(main.occupancy.blocks_per_sm)
    mix = facts.instructions
    if facts.depth is Depth.COMPILED and mix is not None and mix.total:
        in_loops = sum(each.count for each in mix.counts if each.depth)
        found["machine.instructions"] = log2(mix.total)
        found["machine.in_loops"] = in_loops / mix.total
        found["machine.loops"] = float(mix.loops)
        for kind in _KINDS:
            found[f"machine.{kind}"] = mix.of(kind) / mix.total
        predicated = sum(each.predicated for each in mix.counts)
        found["machine.predicated"] = predicated / mix.total
    return found


def _requests(problem: Problem, kernels: Sequence[KernelAnalysis]) -> Features:
    main = _main(kernels)
    requests = main.facts.requests
    if requests is None:
        return {}
    launch = main.launch
    blocks = math.prod(launch.grid)
    found = {
        "requests.steps": log2(requests.steps),
        "requests.imbalance": log2(requests.imbalance),
        "requests.unevenness": log2(requests.unevenness),
        "requests.iterations": log2(requests.iterations),
        "requests.chain_cycles": log2(requests.chain_cycles),
        "requests.barriers": log2(requests.barriers),
        "requests.instructions": log2(requests.instructions),
        "requests.guesses": float(len(requests.guesses)),
    }
    shared = sum(each.wavefronts for each in requests.shared)
    least = sum(each.least_wavefronts for each in requests.shared)
    if least:
        found["requests.bank_conflicts"] = log2(shared / least)
        found["requests.shared_per_block"] = log2(shared / blocks)
    for kind in ("load", "store", "atomic"):
        found |= _accessed(
            kind, [a for a in requests.accesses if a.kind == kind], launch.num_warps * blocks
        )
    compulsory = problem.read_bytes + problem.write_bytes
    l2_bytes = sum(_l2_bytes(kernel) for kernel in kernels)
    dram_bytes = sum(_dram_bytes(kernel) for kernel in kernels)
    if compulsory:
        found["requests.l2_traffic"] = log2(l2_bytes / compulsory)
        found["requests.dram_traffic"] = log2(dram_bytes / compulsory)
    for pipe, amount in requests.operations.items():
        wanted = problem.operations.get(pipe, 0)
        if wanted:
            kind = pipe.partition(".")[0]
            found[f"requests.{kind}_work"] = log2(amount / wanted)
    return found


def _accessed(kind: str, accesses: Sequence[Access], warps: int) -> Features:
    moved = sum(each.sector_bytes for each in accesses)
    if not moved:
        return {}
    requested = sum(each.requested_bytes for each in accesses)
    requests = sum(each.requests for each in accesses)
    unique = sum(each.unique_bytes for each in accesses)
    wide = sum(each.vector_bytes * each.sectors for each in accesses)
    paths = {
        path: sum(a.sector_bytes for a in accesses if a.path == path) for path in ("async", "tma")
    }
    return {
        f"requests.{kind}_count": float(len(accesses)),
        f"requests.{kind}_efficiency": log2(requested / moved),
        f"requests.{kind}_reuse": log2(moved / unique) if unique else 0.0,
        f"requests.{kind}_per_warp": log2(requests / warps),
        f"requests.{kind}_width_bytes": wide * 32 / moved,
        f"requests.{kind}_async": paths["async"] / moved,
        f"requests.{kind}_tma": paths["tma"] / moved,
    }


def _l2_bytes(kernel: KernelAnalysis) -> float:
    requests = kernel.facts.requests
    found = requests.l2_read_bytes + requests.l2_write_bytes if requests else 0
    return float(found * kernel.launch.count)


def _dram_bytes(kernel: KernelAnalysis) -> float:
    demand = kernel.demand
    found = demand.dram_read_bytes + demand.dram_write_bytes if demand else 0
    return float(found * kernel.launch.count)


# ------------------------------------------------------------------------------------ parameters


def _params(params: Mapping[str, Value], kernels: Sequence[KernelAnalysis]) -> Features:
    found: Features = {}
    for name, value in params.items():
        if isinstance(value, bool):
            found[f"params.{name}"] = float(value)
        elif _is_number(value):
            found[f"params.{name}"] = log2(float(value))
        else:
            found[f"params.{name}={value}"] = 1.0
    numbers = [
        float(value)
        for kernel in kernels[:1]
        for value in kernel.launch.constants.values()
        if _is_number(value) and not isinstance(value, bool) and float(value) > 1
    ]
    for place, number in enumerate(sorted(numbers, reverse=True)[:_NUMBERS]):
        found[f"params.constant_{place}"] = log2(number)
    return found


def _is_number(value: object) -> TypeGuard[int | float]:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _width(dtype: str) -> float:
    """Bytes of an element, from its dtype's name; ``float8_e4m3fn`` has one."""
    digits = "".join(c for c in dtype.partition("_")[0] if c.isdigit())
    return int(digits) / 8 if digits else 1.0
