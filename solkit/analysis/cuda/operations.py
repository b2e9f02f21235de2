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
    **dict.fromkeys(("e2m1", "e2m3", "e3m2"), "fp8"),
}  # fmt: skip
_SUMS = ("f32", "s32")
_FP4 = frozenset(("kind::mxf4", "kind::mxf4nvf4"))
_KINDS = {
    **{"kind::f16": ("fp16", 16), "kind::tf32": ("tf32", 8), "kind::i8": ("int8", 32)},
    **dict.fromkeys(("kind::f8f6f4", "kind::mxf8f6f4"), ("fp8", 32)),
    **dict.fromkeys(_FP4, ("fp4", 64)),
}
"""Type and k of a dense ``tcgen05.mma``."""
_DESCRIPTOR = 3  # operand of tcgen05.mma, behind the sum and both factors
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
    multiplies = statement.name in ("mma", "wmma", "wgmma")
    if not multiplies or shape is None or not {"load", "store"}.isdisjoint(statement.modifiers):
        return {}
    m, n, k = map(int, shape.groups())
    modifiers = statement.modifiers
    kinds = [modifier for modifier in modifiers if modifier in _TYPES or modifier in _SUMS]
    factor = kinds[1] if len(kinds) >= 3 else "f16"  # wmma names no types of fp16's factors
    kind = "fp4" if not _FP4.isdisjoint(modifiers) else _TYPES.get(factor, "tf32")
    warps = _GROUP_WARPS if statement.name == "wgmma" else 1
    is_sparse = any(modifier.partition("::")[0] == "sp" for modifier in modifiers)
    return {f"tensor.{kind}": 2.0 * m * n * k / warps / (2 if is_sparse else 1)}


def described_operations(statement: Statement, constants: Mapping[str, int]) -> Mapping[str, float]:
    """Return operations of a ``tcgen05.mma``, whose descriptor says them; empty if it is unknown.

    Source: PTX ISA 8.7, tcgen05.mma, "Instruction descriptor".

    Args:
        statement: any.
        constants: numbers in registers, as far as the code has them.
    """
    kinds = [modifier for modifier in statement.modifiers if modifier in _KINDS]
    if statement.name != "tcgen05" or not kinds or len(statement.operands) <= _DESCRIPTOR:
        return {}
    described = constants.get(statement.operands[_DESCRIPTOR])
    if described is None:
        return {}
    kind, k = _KINDS[kinds[0]]
    n = (described >> 17 & 63) * 8
    m = (described >> 24 & 31) * 16
    is_bf16 = kind == "fp16" and described >> 7 & 7 == 1
    return {f"tensor.{'bf16' if is_bf16 else kind}": 2.0 * m * n * k}


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
