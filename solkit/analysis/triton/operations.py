"""Operations that a kernel's code executes, by pipe, from its IR.

Each operation counts once for every element in every thread, including copies of one element in
several threads: the pipes execute these. Integer arithmetic is left out, since LLVM removes most of
it; `solkit.analysis.common.instructions` counts it in the machine code.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

from solkit.adapters.triton_ir import Function, Operation, TensorType
from solkit.analysis.triton.layouts import tensor_spread

Cost = Mapping[str, float]

_FP = {"fp32": 1.0}
_SFU = {"sfu": 1.0}
_SCALED_SFU = {"sfu": 1.0, "fp32": 1.0}
_LOGARITHM = {"fp32": 28.0}
COSTS: Mapping[str, Cost] = {
    **dict.fromkeys(("arith.addf", "arith.subf", "arith.mulf"), _FP),
    "math.fma": {"fp32": 2.0},
    "arith.divf": {"sfu": 1.0, "fp32": 2.0},
    "math.exp2": _SFU,
    "math.exp": {"sfu": 1.0, "fp32": 1.0},
    "math.log2": _SFU,
    "math.log": {"sfu": 1.0, "fp32": 1.0},
    "math.sin": _SFU,
    "math.cos": _SFU,
    "math.rsqrt": _SFU,
    "math.sqrt": _SFU,
    "tt.precise_sqrt": {"sfu": 1.0, "fp32": 6.0},
    "tt.precise_divf": {"sfu": 1.0, "fp32": 8.0},
    "tt.approx_divf": {"sfu": 1.0, "fp32": 1.0},
    "math.tanh": {"sfu": 2.0, "fp32": 6.0},
    "math.erf": {"sfu": 1.0, "fp32": 30.0},
}
"""Floating-point operations per element. Sources: PTX ISA (ex2, lg2, sin, cos, rsqrt, sqrt.approx
and the reciprocal in div.full and div.approx are one MUFU each); libdevice's polynomials of erf and
tanh, counted in its machine code."""

_EXTERN = {
    "tanh": COSTS["math.tanh"],
    "erf": COSTS["math.erf"],
    "exp": COSTS["math.exp"],
    "log": COSTS["math.log"],
    "rsqrt": _SFU,
    "sqrt": _SFU,
    "sin": {"sfu": 0.0, "fp32": 20.0},
    "cos": {"sfu": 0.0, "fp32": 20.0},
    "fma": {"fp32": 2.0},
    **dict.fromkeys(("exp2", "fast_log2"), _SFU),
    **dict.fromkeys(("fast_exp", "fast_exp10", "fast_log", "fast_sin", "fast_cos"), _SCALED_SFU),
    "fast_fdivide": _SCALED_SFU,
    "fast_pow": {"sfu": 2.0, "fp32": 1.0},
    "exp10": {"sfu": 1.0, "fp32": 11.0},
    "expm1": {"sfu": 1.0, "fp32": 22.0},
    **dict.fromkeys(("log2", "log10", "log1p"), _LOGARITHM),
    "pow": {"sfu": 2.0, "fp32": 71.0},
    "cbrt": {"sfu": 3.0, "fp32": 8.0},
    "sinh": {"sfu": 2.0, "fp32": 23.0},
    "cosh": {"sfu": 2.0, "fp32": 13.0},
    "asin": {"sfu": 1.0, "fp32": 17.0},
    "acos": {"sfu": 1.0, "fp32": 18.0},
    "erfc": {"sfu": 3.0, "fp32": 56.0},
    "hypot": {"sfu": 1.0, "fp32": 8.0},
    "frcp_rn": COSTS["tt.precise_divf"],
    "fdiv_rn": COSTS["tt.precise_divf"],
    "fsqrt_rn": COSTS["tt.precise_sqrt"],
}
"""Functions of libdevice, counted in what they become for sm_90, without the paths of rare values:
a fused multiply-add is two operations, a MUFU one of the special functions."""

_SCALED = {"tt.dot_scaled", "ttng.tc_gen5_mma_scaled"}
DOTS = {"tt.dot", "ttng.warp_group_dot", "ttng.tc_gen5_mma"} | _SCALED
_DTYPES = {"bf16": "bf16", "f16": "fp16", "f64": "fp64", "i8": "int8"}


def operations_of(function: Function, executions: Mapping[Any, float]) -> dict[str, int]:
    """Return operations of a launch, under the keys of `solkit.core.Device.ceilings`.

    Args:
        function: the kernel.
        executions: how often each of its blocks runs, over the launch.
    """
    total: dict[str, float] = {}
    for block, operation, _ in function.walk():
        times = executions.get(block, 0.0)
        for pipe, count in _execution_cost(operation).items() if times else ():
            total[pipe] = total.get(pipe, 0.0) + count * times
    return {pipe: round(count) for pipe, count in sorted(total.items()) if count >= 0.5}


CYCLES = {"shuffle": 24, "shared": 30, "barrier": 30, "mufu": 20, "plain": 4, "wgmma": 60}
"""Latencies. Jia et al., "Dissecting the NVIDIA Volta GPU Architecture via Microbenchmarking"
(2018), table 4.1 and section 3 (4 cycles of a dependent FFMA, about 20 of shared memory and of
MUFU), and Luo et al. (2024) for Hopper (shared memory 29, wgmma 18 to 32 and its fences)."""


def chain_cycles(function: Function, executions: Mapping[Any, float]) -> float:
    """Count cycles of all operations in sequence, over the launch; see `Requests.chain_cycles`.

    Args:
        function: the kernel.
        executions: how often each of its blocks is run.
    """
    return sum(
        executions.get(block, 0.0) * _operation_latency(operation)
        for block, operation, _ in function.walk()
    )


def _operation_latency(operation: Operation) -> float:
    name = operation.name
    if name in DOTS:
        return CYCLES["wgmma"]
    if name in ("tt.reduce", "tt.scan"):
        return _exchange(operation)
    if name == "ttg.convert_layout":  # through shared memory: store, barrier, load
        return CYCLES["shared"] * 2 + CYCLES["barrier"]
    if name in ("ttg.async_wait", "ttng.wait_barrier", "ttg.local_alloc", "ttg.local_load"):
        return CYCLES["barrier"]
    if name not in COSTS:
        return 0.0
    kind = operation.result_type
    return CYCLES["mufu" if "sfu" in COSTS[name] else "plain"] if kind.shape else 0.0


def _exchange(operation: Operation) -> float:
    """Shuffles between lanes that share a row, then shared memory between warps that do."""
    kind = operation.all_types[0]
    axis = operation.attribute("axis") or 0
    try:
        layout = tensor_spread(kind)
    except ValueError:
        return 0.0
    steps = sum(bool(basis[axis]) for basis in layout.lanes)
    across = any(basis[axis] for basis in layout.warps)
    within = sum(bool(basis[axis]) for basis in layout.registers)
    cycles = steps * (CYCLES["shuffle"] + CYCLES["plain"]) + (1 << within) * CYCLES["plain"] / 2
    return cycles + across * (2 * CYCLES["shared"] + CYCLES["barrier"])


def _execution_cost(operation: Operation) -> Cost:
    """Return the cost of one execution by one program."""
    if operation.name in DOTS:
        return _matrix_product(operation)
    if operation.name in ("tt.reduce", "tt.scan"):
        return _reduction(operation)
    per_element = COSTS.get(operation.name)
    if operation.name == "tt.extern_elementwise":
        per_element = _EXTERN.get(libdevice_function(operation))
    elif operation.name == "tt.elementwise_inline_asm":
        per_element = _inline_assembly(operation)
    if per_element is None:
        return {}
    kind = operation.result_type
    pipe = "fp64" if kind.element == "f64" else "fp32"
    held = _elements_per_block(kind)
    return {pipe if name == "fp32" else name: n * held for name, n in per_element.items()}


def _elements_per_block(kind: TensorType) -> int:
    """Count elements in all threads of a block."""
    if not kind.shape or kind.layout is None:
        return 0  # a scalar: negligible
    try:
        layout = tensor_spread(kind)
    except ValueError:
        return math.prod(kind.shape)
    return layout.per_thread * layout.threads


def libdevice_function(operation: Operation) -> str:
    """Return the function of libdevice that an operation calls, without ``f``; empty if none."""
    symbol = re.search(r'symbol = "__nv_(\w+?)f?"', operation.text)
    return symbol[1] if symbol else ""


def _inline_assembly(operation: Operation) -> Cost:
    """Return the floating-point instructions of a piece of PTX, for each element of its result."""
    packed = re.search(r"packed_element = (\d+)", operation.text)
    elements = float(packed[1]) if packed else 1.0
    cost = {"sfu": 0.0, "fp32": 0.0}
    for name, suffixes in _INSTRUCTION.findall(operation.text):
        pipe = "fp32" if name in ("add", "fma", "mul", "sub") else "sfu"
        operations = (2 if name == "fma" else 1) * (2 if suffixes.endswith("x2") else 1)
        cost[pipe] += operations / elements
    return cost


_INSTRUCTION = re.compile(
    r"\b(add|fma|mul|sub|ex2|lg2|sin|cos|tanh|rcp|rsqrt|sqrt)((?:\.\w+)*\.b?f(?:16|32)(?:x2)?)\b"
)
"""Instructions of PTX that compute floats; special functions are one MUFU for each number."""


def _reduction(operation: Operation) -> Cost:
    """Return the combining function, once for each element of the input; twice for a scan."""
    kind = operation.all_types[0]
    once: dict[str, float] = {}
    for block in operation.blocks:
        for inner in block.operations:
            for name, count in COSTS.get(inner.name, {}).items():
                once[name] = once.get(name, 0.0) + count
    times = _elements_per_block(kind) * (2 if operation.name == "tt.scan" else 1)
    return {name: count * times for name, count in once.items()}


def _matrix_product(operation: Operation) -> Cost:
    """Return a matrix product: 2 M N K operations on the tensor cores, or on the scalar pipe."""
    tensors = [kind for kind in operation.all_types if len(kind.shape) >= 2]
    a, b = tensors[:2]
    flops = 2.0 * math.prod(a.shape) * b.shape[-1]
    result = tensors[-1]
    scalar = result.layout is not None and result.layout.kind in ("blocked", "linear")
    if scalar and operation.name in ("tt.dot", "tt.dot_scaled"):
        return {"fp64" if a.element == "f64" else "fp32": flops}
    if operation.name in _SCALED:
        return _scaled_product(operation, a, flops)
    passes: float = 3 if operation.attribute("inputPrecision") == 1 and a.element == "f32" else 1
    if operation.name.startswith("ttng.tc_gen5_mma"):
        passes = _tile_cost(operation, a.shape[-2], b.shape[-1])
    return {f"tensor.{_scaled_element_pipe(a.element)}": flops * passes}


def _tile_cost(operation: Operation, rows: int, columns: int) -> float:
    """Return the time of a ``tcgen05.mma`` over what its operations take at the full rate.

    It takes ``columns / 2`` cycles for 32 bytes along K, of 64 rows as of 128. Shared memory gives
    128 bytes a clock meanwhile, of both factors unless the first lies in tensor memory. So 64 rows
    take twice as long each, and 128 rows of 64 columns 1.5 times. This is within 2 % of all 120
    rates of one SM in umma_throughput of https://github.com/SemiAnalysisAI/microbench-blackwell,
    and within 17 % of the 144 of two SMs, which share the second factor.
    """
    sms = 2 if "two_ctas" in operation.text else 1
    own_rows, read_columns = min(rows / sms, 128), min(columns, 256)
    full = own_rows * read_columns / 256
    factor = re.search(r"!ttg\.memdesc<[^>]*>", operation.text)
    is_in_tensor_memory = factor is not None and "tensor_memory" in factor.group()
    read_rows = 0.0 if is_in_tensor_memory else own_rows
    busy = full if sms == 2 else read_columns / 2
    return max(busy, (read_rows + read_columns / sms) / 4) / full


def _scaled_product(operation: Operation, a: TensorType, flops: float) -> Cost:
    """Return a product of operands with scales; a byte holds two numbers of 4 bits.

    Source: PTX ISA, tcgen05.mma, "Kinds": if one side has more than 4 bits, the kind is
    ``mxf8f6f4``, at the rate of 8 bits.
    """
    formats = re.findall(r"\b[lr]hs = (\w+)", operation.text)
    packed = formats[:1] == ["e2m1"] and a.element == "i8"
    if formats and set(formats) <= {"bf16", "fp16"}:
        return {f"tensor.{formats[0]}": flops}
    pipe = "fp4" if set(formats) == {"e2m1"} else "fp8"
    return {f"tensor.{pipe}": flops * (2 if packed else 1)}


def _scaled_element_pipe(element: str) -> str:
    if element == "f32":
        return "tf32"
    return _DTYPES.get(element, "fp4" if element.startswith(("f4", "i4")) else "fp8")
