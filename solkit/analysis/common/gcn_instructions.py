"""Kinds, widths and operations of AMD's machine instructions.

Opcodes are classified by their names' parts, as in AMD's "CDNA 3 Instruction Set Architecture" and
"CDNA 4 Instruction Set Architecture": ``s_`` runs once a wave on the scalar unit, ``v_`` on the
vector pipes, ``ds_`` in the local data share, ``buffer_``, ``global_`` and ``flat_`` in memory.
"""

from __future__ import annotations

import re

from solkit.adapters.amdgcn import access_of
from solkit.adapters.sass import Instruction

_WAVE_THREADS = 64
_MATRIX = re.compile(r"v_(?:mfma|smfmac)_.*?(\d+)x(\d+)x(\d+)(?:_(\d+)b)?")
_PREFIXES = (
    ("tensor", ("v_mfma_", "v_smfmac_")),
    ("nop", ("s_nop", "s_setprio", "s_sleep", "s_code_end", "v_nop")),
    ("barrier", ("s_barrier", "s_waitcnt", "buffer_wb", "buffer_inv")),
    ("branch", ("s_branch", "s_cbranch", "s_endpgm", "s_setpc", "s_swappc", "s_trap")),
    ("constant_load", ("s_load", "s_buffer_load")),
    ("uniform", ("s_",)),
    ("warp", ("ds_bpermute", "ds_permute", "ds_swizzle", "v_permlane", "v_readlane")),
    ("sfu", ("v_exp_", "v_log_", "v_rcp_", "v_rsq_", "v_sqrt_", "v_sin_", "v_cos_")),
    ("convert", ("v_cvt_",)),
    (
        "move",
        ("v_mov", "v_cndmask", "v_perm_", "v_readfirst", "v_accvgpr", "v_writelane", "v_pack"),
    ),
)
_TYPES = (("_f64", "fp64"), ("_f32", "fp32"), ("_f16", "fp16"), ("_bf16", "fp16"))
_FUSED = ("fma", "mad_f", "dot2", "mac_f")


def gcn_kind(instruction: Instruction) -> str:
    """Return one of `solkit.analysis.common.instruction_kinds.KINDS`."""
    opcode = instruction.opcode
    if opcode.endswith("_dpp") or "row_shr" in " ".join(instruction.operands):
        return "warp"
    for kind, prefixes in _PREFIXES:
        if opcode.startswith(prefixes):
            return kind
    if access := access_of(opcode):
        space, kind, _ = access
        return "async_copy" if "_lds_" in opcode else f"{space}_{kind}"
    if not opcode.startswith("v_"):
        return "other"
    return next((kind for part, kind in _TYPES if part in opcode), "int32")


def gcn_width_bytes(instruction: Instruction, kind: str) -> int:
    """Return bytes of one thread's access; 0 for what is none."""
    access = access_of(instruction.opcode)
    return access[2] if access and kind != "warp" else 0


def gcn_flops(instruction: Instruction, kind: str) -> int:
    """Return floating-point operations of a wave; of a matrix instruction 2 m n k a block."""
    opcode = instruction.opcode
    if kind == "tensor":
        shape = _MATRIX.match(opcode)
        if shape is None:
            return 0
        m, n, k, blocks = (int(size or 1) for size in shape.groups())
        return 2 * m * n * k * blocks
    if kind not in ("fp32", "fp64", "fp16"):
        return 0
    fused = any(part in opcode for part in _FUSED)
    if not fused and not re.match(r"v_(pk_)?(add|sub|subrev|mul)_", opcode):
        return 0
    return _WAVE_THREADS * (2 if fused else 1) * (2 if opcode.startswith("v_pk_") else 1)
