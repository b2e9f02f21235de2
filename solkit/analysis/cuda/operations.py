"""Operations of a piece of PTX by pipe, and how long it takes in sequence.

Integer arithmetic is left out, as for Triton kernels: ptxas rewrites it, and the machine code's
instructions are counted (`solkit.analysis.common.instructions`). Half floats use the fp32 pipe, a
pair at a time.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from solkit.analysis.common.ptx_code import Statement
from solkit.analysis.interpreter.control_flow import Instruction
from solkit.analysis.triton.operations import CYCLES

__all__ = ["chain_of", "lane_operations", "warp_operations"]

_APPROXIMATE = frozenset("ex2 lg2 sin cos tanh rsqrt rcp sqrt".split())
_PLAIN = {"add": 1.0, "sub": 1.0, "mul": 1.0, "fma": 2.0, "mad": 2.0}
_EXACT: Mapping[str, Mapping[str, float]] = {
    "div": {"sfu": 1.0, "fp32": 8.0},
    "rcp": {"sfu": 1.0, "fp32": 4.0},
    "sqrt": {"sfu": 1.0, "fp32": 6.0},
}
"""IEEE rounding of fp32: a first guess and Newton steps, as in
`solkit.analysis.triton.operations`."""
_DOUBLE = {"div": 18.0, "rcp": 10.0, "sqrt": 16.0}
"""The same for doubles, with two more Newton steps; counted in ptxas's code."""
_FLOATS = re.compile(r"f16x2|bf16x2|f16|bf16|f32|f64")
_SHAPE = re.compile(r"m(\d+)n(\d+)k(\d+)")
_TYPES = {
    **{"f16": "fp16", "bf16": "bf16", "tf32": "tf32", "f64": "fp64", "e4m3": "fp8", "e5m2": "fp8"},
    **dict.fromkeys(("s8", "u8"), "int8"), **dict.fromkeys(("s4", "u4"), "int4"), "b1": "int1",
}  # fmt: skip
_GROUP_WARPS = 4
_MMA_CYCLES = 33
"""A dependent ``mma.sync``. Luo et al. (2024), table of tensor core latencies, H100."""


def lane_operations(statement: Statement) -> Mapping[str, float]:
    """Return operations of one lane by pipe, under the keys of `solkit.core.Device.ceilings`."""
    kinds = [modifier for modifier in statement.modifiers if _FLOATS.fullmatch(modifier)]
    if not kinds:
        return {}
    pipe = "fp64" if "f64" in kinds else "fp32"
    if statement.name in _PLAIN:
        return {pipe: _PLAIN[statement.name]}
    if pipe == "fp64":
        return {"fp64": _DOUBLE[statement.name]} if statement.name in _DOUBLE else {}
    if statement.name in _APPROXIMATE and "approx" in statement.modifiers:
        return {"sfu": 1.0}
    if statement.name == "div" and {"approx", "full"} & set(statement.modifiers):
        return {"sfu": 1.0, "fp32": 2.0 if "full" in statement.modifiers else 1.0}
    return _EXACT.get(statement.name, {})


def warp_operations(statement: Statement) -> Mapping[str, float]:
    """Return operations of one warp on the tensor cores: 2 m n k, or a quarter of a warp group's.

    Source of types and shapes: PTX ISA, mma, wmma.mma and wgmma.mma_async.
    """
    shape = _SHAPE.search(statement.opcode)
    if (
        statement.name not in ("mma", "wmma", "wgmma")
        or shape is None
        or "load" in statement.modifiers
    ):
        return {}
    if "store" in statement.modifiers:
        return {}
    m, n, k = map(int, shape.groups())
    kinds = [
        modifier for modifier in statement.modifiers if modifier in _TYPES or modifier == "f32"
    ]
    factor = kinds[1] if len(kinds) >= 3 else "f16"  # wmma names no types of fp16's factors
    warps = _GROUP_WARPS if statement.name == "wgmma" else 1
    flops = 2.0 * m * n * k / warps / (2 if "sp" in statement.modifiers else 1)
    return {f"tensor.{_TYPES.get(factor, 'tf32')}": flops}


def chain_of(instructions: Sequence[Instruction]) -> float:
    """SM cycles of the longest chain of dependent instructions, with all pipes free.

    Loads of global memory take none: waiting for them is counted separately.
    """
    ready: dict[str, float] = {}
    floor = longest = 0.0
    for instruction in instructions:
        statement: Statement = instruction.source
        start = max([floor, *(ready.get(name, 0.0) for name in instruction.read)])
        end = start + _latency_cycles(statement)
        if statement.name in ("bar", "barrier"):
            floor = end = longest + CYCLES["barrier"]
        ready.update(dict.fromkeys(instruction.written, end))
        longest = max(longest, end)
    return longest


def _latency_cycles(statement: Statement) -> float:
    if statement.name in ("ld", "ldmatrix", "atom") and any(
        "shared" in m for m in statement.modifiers
    ):
        return CYCLES["shared"]
    if statement.name in ("shfl", "redux", "vote"):
        return CYCLES["shuffle"]
    if warp_operations(statement):
        return CYCLES["wgmma"] if statement.name == "wgmma" else _MMA_CYCLES
    costs = lane_operations(statement)
    if "sfu" in costs:
        return CYCLES["mufu"] + costs.get("fp32", 0.0) / 2 * CYCLES["plain"]
    return CYCLES["plain"] * max(sum(costs.values()) / 2, 1.0) if costs else 0.0
