"""Instruction mixes, held against counts made by hand and shapes of the PTX ISA."""

from collections import Counter
from pathlib import Path

import pytest

from solkit.adapters import sass
from solkit.analysis.common.instruction_kinds import KINDS
from solkit.analysis.common.instructions import instruction_mix

DATA = Path(__file__).parents[2] / "adapters" / "data"


def mixed(*instructions):
    text = "\n".join(
        f"/*{16 * i:04x}*/ {instruction} ;" for i, instruction in enumerate(instructions)
    )
    (code,) = sass.parse_listing(f"Function : f\n{text}").values()
    return instruction_mix(code)


def only(instruction):
    """The count of one instruction, before the EXIT."""
    (count,) = (count for count in mixed(instruction, "EXIT").counts if count.kind != "branch")
    return count


@pytest.fixture(scope="module")
def rows():
    (code,) = sass.parse_listing((DATA / "rows.nvdisasm.txt").read_text()).values()
    return instruction_mix(code)


def test_every_instruction_of_a_kernel_by_kind_and_depth(rows):
    results = Counter()
    for item in rows.counts:
        results[item.kind, item.depth] += item.count
    assert results == {  # by hand, from the listing
        ("fp32", 1): 5, ("fp32", 2): 1, ("sfu", 1): 1,
        ("int32", 0): 2, ("int32", 1): 4, ("int32", 2): 4,
        ("move", 0): 3, ("move", 1): 4, ("move", 2): 1, ("uniform", 0): 1, ("uniform", 1): 1,
        ("constant_load", 0): 4, ("constant_load", 1): 3,
        ("global_load", 2): 1, ("global_store", 0): 1,
        ("branch", 0): 2, ("branch", 1): 4, ("branch", 2): 1,
    }  # fmt: skip
    assert (rows.total, rows.loops) == (43, 2)
    assert rows.of("fp32", "sfu") == 7


def test_predicated_instructions_and_operations_of_a_kernel(rows):
    fp32 = {(count.depth, count.warp_flops): count for count in rows.counts if count.kind == "fp32"}
    assert fp32[2, 64].count == 1  # FFMA: two a lane
    assert (fp32[1, 32].count, fp32[1, 32].predicated) == (4, 2)  # 3 FMUL, 1 FADD
    assert fp32[1, 0].count == 1  # FSETP compares
    assert rows.lines["rows.cu:8"] == 3  # IMAD.MOV, LDG, FFMA
    assert sum(rows.lines.values()) == rows.total


@pytest.mark.parametrize(
    ("opcode", "flops"),
    [  # 2 m n k; of a warp group's each warp has a quarter
        ("HMMA.16816.F32.BF16", 4096),
        ("HMMA.16816.F32", 4096),
        ("HMMA.16816.F16", 4096),
        ("HMMA.1688.F32.TF32", 2048),
        ("HMMA.SP.16832.F32", 4096),
        ("IMMA.16832.S8.S8", 8192),
        ("DMMA.884", 512),
        ("DMMA.8x8x4", 512),
        ("HGMMA.64x128x16.F32.BF16", 65536),
        ("HGMMA.64x64x16.F16", 32768),
        ("HGMMA.64x256x8.F32.TF32", 65536),
        ("QGMMA.64x128x32.F32.E4M3.E4M3", 131072),
        ("IGMMA.64x64x32.S8.S8", 65536),
        ("UTCHMMA", 0),
    ],
)
def test_tensor_instructions(opcode, flops):
    count = only(f"{opcode} R24, R4, R24")
    assert (count.kind, count.opcode, count.warp_flops) == ("tensor", opcode, flops)


@pytest.mark.parametrize(
    ("instruction", "kind", "width_bytes"),
    [
        ("LDG.E.128.CONSTANT R4, desc[UR6][R12.64]", "global_load", 16),
        ("LDG.E.U16 R4, desc[UR6][R12.64]", "global_load", 2),
        ("LDG.E R4, desc[UR6][R12.64]", "global_load", 4),
        ("STG.E.64 desc[UR6][R12.64], R4", "global_store", 8),
        ("LDGSTS.E.BYPASS.LTC128B.128 [R1], desc[UR6][R2.64]", "async_copy", 16),
        ("LDGSTS.E.LTC128B [R1], desc[UR6][R2.64]", "async_copy", 4),
        ("UTMALDG.2D [UR8], [UR4]", "tma", 0),
        ("LDS.128 R4, [R8]", "shared_load", 16),
        ("LDSM.16.M88.4 R12, [R4+UR7]", "shared_load", 16),
        ("LDSM.16.MT88.2 R12, [R4]", "shared_load", 8),
        ("STSM.16.M88 [R4], R12", "shared_store", 4),
        ("STL [R1], R4", "local_store", 4),
        ("LDL.64 R4, [R1]", "local_load", 8),
        ("REDG.E.ADD.F64.RN.STRONG.GPU desc[UR4][R2.64], R4", "global_atomic", 8),
        ("RED.E.ADD.F32.FTZ.RN.STRONG.GPU [R2.64], R5", "global_atomic", 4),
        ("ATOMS.POPC.INC.32 RZ, [UR4]", "shared_atomic", 4),
    ],
)
def test_memory_instructions(instruction, kind, width_bytes):
    count = only(instruction)
    assert (count.kind, count.width_bytes) == (kind, width_bytes)


@pytest.mark.parametrize(
    ("instruction", "kind", "flops"),
    [
        ("FFMA2 R0, R2, R4, R6", "fp32", 128),
        ("FMNMX R0, R1, R2, !PT", "fp32", 0),
        ("DFMA R0, R2, R4, R6", "fp64", 64),
        ("HFMA2.BF16_V2 R0, R1, R2, R3", "fp16", 128),
        ("HFMA2.MMA R9, -RZ, RZ, 0, 0", "move", 0),
        ("IMAD.MOV.U32 R0, RZ, RZ, R1", "move", 0),
        ("IMAD.SHL.U32 R0, R1, 0x8, RZ", "int32", 0),
        ("MUFU.EX2 R0, R1", "sfu", 0),
        ("F2FP.BF16.F32.PACK_AB R0, R1, R2", "convert", 0),
        ("SHFL.BFLY PT, R1, R2, 0x10, 0x1f", "warp", 0),
        ("BAR.SYNC.DEFER_BLOCKING 0x0", "barrier", 0),
        ("UIADD3 UR4, UR4, 0x1, URZ", "uniform", 0),
        ("NOSUCHOPCODE R0", "other", 0),
    ],
)
def test_other_instructions(instruction, kind, flops):
    count = only(instruction)
    assert (count.kind, count.warp_flops) == (kind, flops)
    assert kind in KINDS


def test_what_never_runs_is_not_counted_and_what_always_does_is_not_predicated():
    mix = mixed("@!PT LDS RZ, [RZ]", "@PT FADD R0, R1, R2", "@P0 FADD R0, R1, R2", "EXIT")
    assert mix.of("shared_load") == 0
    (adds,) = (count for count in mix.counts if count.kind == "fp32")
    assert (adds.count, adds.predicated) == (2, 1)
