"""The instruction mix of a kernel: its machine code, counted by kind and loop depth.

Counts are static: the code does not say how often a loop runs.
"""

from __future__ import annotations

import re
from collections import Counter

from solkit.adapters.sass import Code, Instruction
from solkit.analysis.common.gcn_instructions import gcn_flops, gcn_kind, gcn_width_bytes
from solkit.analysis.common.instruction_kinds import KINDS, instruction_kind
from solkit.analysis.common.warp_roles import warp_roles
from solkit.analysis.common.warp_throughput import paces_of
from solkit.core import InstructionCount, InstructionMix

_LANE_FLOPS = {
    **dict.fromkeys(("FADD", "FADD32I", "FMUL", "FMUL32I", "FHADD", "DADD", "DMUL"), 1),
    **dict.fromkeys(("FFMA", "FFMA32I", "FADD2", "FMUL2", "FHFMA", "DFMA"), 2),
    **dict.fromkeys(("HADD2", "HADD2_32I", "HMUL2", "HMUL2_32I"), 2),
    **dict.fromkeys(("FFMA2", "HFMA2", "HFMA2_32I"), 4),
}
"""Floating-point operations of one thread; a name that ends in 2 works on a pair."""

_NEVER, _ALWAYS = ("!PT", "!UPT"), ("", "PT", "UPT")
_WARP_THREADS = 32
_GROUP_WARPS = 4  # PTX ISA, wgmma: a warp group is four warps
_MOVED = frozenset(
    "global_load global_store async_copy shared_load shared_store local_load local_store "
    "constant_load global_atomic shared_atomic".split()
)
_WIDTHS = {
    **{"U8": 1, "S8": 1, "U16": 2, "S16": 2, "64": 8, "128": 16, "256": 32},
    **{"U64": 8, "S64": 8, "F64": 8, "F16": 2, "BF16": 2, "F32x2": 8, "F32x4": 16},
    **{"F16x4": 8, "F16x8": 16, "BF16x4": 8, "BF16x8": 16, "F16x4_V2": 8},
}
"""Bytes of one thread's access by modifier; 4 without one."""


def instruction_mix(code: Code) -> InstructionMix:
    """Count the instructions of a function; only SASS has paces, whose latencies are known."""
    kind_of, width_of, flops_of = _READERS[code.language]
    counts: Counter[tuple[str, str, int, int, int]] = Counter()
    predicated: Counter[tuple[str, str, int, int, int]] = Counter()
    lines: Counter[str] = Counter()
    for block in code.blocks:
        for instruction in block.instructions:
            if instruction.predicate in _NEVER:  # the compiler's hint for the scheduler
                continue
            kind = kind_of(instruction)
            opcode = instruction.opcode if kind == "tensor" else ""
            row = (
                kind,
                opcode,
                block.depth,
                width_of(instruction, kind),
                flops_of(instruction, kind),
            )
            counts[row] += 1
            predicated[row] += instruction.predicate not in _ALWAYS
            lines.update(place.rpartition("/")[2] for place in instruction.lines[-1:])
    ordered = sorted(counts, key=lambda row: (KINDS.index(row[0]), *row[1:]))
    rows = tuple(
        InstructionCount(kind, opcode, depth, counts[row], predicated[row], width, flops)
        for row in ordered
        for kind, opcode, depth, width, flops in [row]
    )
    is_sass = code.language == "sass"
    paces, roles = (paces_of(code), warp_roles(code)) if is_sass else ((), ())
    return InstructionMix(rows, code.loops, dict(sorted(lines.items())), paces, roles)


def _width_bytes(instruction: Instruction, kind: str) -> int:
    if kind not in _MOVED:
        return 0
    if instruction.name in ("LDSM", "STSM"):  # PTX ISA, ldmatrix: 8 rows of 16 bytes a matrix
        matrices = instruction.modifiers[-1]
        return 4 * (int(matrices) if matrices in ("2", "4") else 1)
    widths = [_WIDTHS[modifier] for modifier in instruction.modifiers if modifier in _WIDTHS]
    return widths[-1] if widths else 4


def _warp_flops(instruction: Instruction, kind: str) -> int:
    if kind == "tensor":
        return _tensor_flops(instruction)
    if kind in ("fp32", "fp64", "fp16"):
        return _WARP_THREADS * _LANE_FLOPS.get(instruction.name, 0)
    return 0


# --------------------------------------------------------------------------------- tensor cores

_OF_GROUPS = frozenset({"HGMMA", "IGMMA", "QGMMA", "BGMMA"})
_SHAPE = re.compile(r"(\d+)x(\d+)x(\d+)")  # HGMMA.64x128x16, DMMA.8x8x4
_SHORT_SHAPE = re.compile(r"(16|8)(8)(\d+)")  # HMMA.16816


def _tensor_flops(instruction: Instruction) -> int:
    """2 m n k, or a quarter of it for each warp of a group; PTX ISA, the shapes of mma and wgmma.

    Integer products count the same. A sparse one (``SP``) skips half of its multiplications.
    """
    warps = _GROUP_WARPS if instruction.name in _OF_GROUPS else 1
    for modifier in instruction.modifiers:
        if shape := _SHAPE.fullmatch(modifier) or _SHORT_SHAPE.fullmatch(modifier):
            m, n, k = (int(size) for size in shape.groups())
            flops = 2 * m * n * k // warps
            return flops // 2 if "SP" in instruction.modifiers else flops
    return 0


_READERS = {
    "sass": (instruction_kind, _width_bytes, _warp_flops),
    "gcn": (gcn_kind, gcn_width_bytes, gcn_flops),
}
"""Kind, width and operations of an instruction, by the language of its code."""
