"""Wavefronts of shared memory, against the same by hand."""

from __future__ import annotations

import numpy as np
import pytest

from solkit.adapters.triton_ir import parse_module
from solkit.analysis.triton.bank_conflicts import shared_traffic, tensor_shared_bytes, wavefronts
from solkit.analysis.triton.shared_addresses import barriers_of, shared_instructions

LANES = np.arange(32)

HEAD = """
.extern .shared .align 16 .b8 global_smem[];
.visible .entry kernel(.param .u64 kernel_param_0)
.reqntid 32
{
"""


def only(body):
    (shared_instruction,) = shared_instructions(HEAD + body)
    return shared_instruction


@pytest.mark.parametrize(
    ("addresses", "width", "taken", "least"),
    [
        (LANES * 4, 4, 1, 1),  # a row
        (LANES * 128, 4, 32, 1),  # a column of rows of 32 words
        (LANES * 132, 4, 1, 1),  # the same, padded by a word
        (LANES * 64, 4, 16, 1),
        (LANES * 0, 4, 1, 1),  # one word for all
        (LANES * 2, 2, 1, 1),  # two lanes a word
        (LANES * 8, 8, 2, 2),  # half a warp at a time
        (LANES * 16, 16, 4, 4),  # a quarter
        (LANES * 128, 16, 32, 4),  # 8 lanes in the same four banks, four times
        (LANES // 2 * 16, 16, 2, 2),  # neighbours share: two quarters together
        (LANES // 4 * 8, 8, 1, 1),  # two halves together
        (np.where(LANES < 8, LANES * 128, -1), 4, 8, 1),  # the others take no part
        (np.where(LANES < 8, LANES * 16, -1), 16, 1, 1),
    ],
)
def test_words_of_one_bank_take_a_wavefront_each(addresses, width, taken, least):
    assert wavefronts(addresses, width) == (1, taken, least)
    two = np.concatenate([addresses, np.where(addresses < 0, -1, addresses + 4096)])
    assert wavefronts(two, width) == (2, 2 * taken, 2 * least)
    assert wavefronts(np.full(64, -1), width) == (0, 0, 0)


def test_a_tile_is_written_by_rows_and_read_by_columns():
    # a 32 x 32 tile of words: lane l writes word l of a row, and reads word 5 of row l
    swizzled = """
        mov.u32 %r1, %tid.x;
        shl.b32 %r2, %r1, 7;
        xor.b32 %r3, %r1, 5;
        {step}
        mov.b32 %r6, global_smem;
        add.s32 %r7, %r6, %r5;
        ld.shared.b32 %r8, [%r7];
    """
    plain = only(HEAD + swizzled.format(step="add.s32 %r5, %r2, 20;"))
    assert wavefronts(plain.addresses, 4) == (1, 32, 1)
    turned = only(HEAD + swizzled.format(step="shl.b32 %r4, %r3, 2;\nor.b32 %r5, %r2, %r4;"))
    assert turned.addresses.tolist() == [(128 * lane) | (4 * (lane ^ 5)) for lane in LANES]
    assert wavefronts(turned.addresses, 4) == (1, 1, 1)


def test_what_all_threads_share_moves_them_alike():
    text = only("""
        ld.param.b32 %r1, [kernel_param_0];
        mov.u32 %r2, %tid.x;
        mad.lo.s32 %r3, %r2, 36, %r1;
        sub.s32 %r4, %r3, 4096;
        st.shared.b32 [ %r4 + -8 ], %r9;
    """)
    assert text.kind == "store"
    # 9 words apart: each lane in a bank of its own, wherever the first is
    assert (np.diff(text.addresses) == 36).all()
    assert (text.addresses >= 0).all()


@pytest.mark.parametrize(
    "address",
    [
        "ld.global.b32 %r3, [%rd1];",  # from data
        "ld.param.b32 %r2, [kernel_param_0];\nxor.b32 %r3, %r1, %r2;",  # no plain shift of all
        "cvt.rn.f32.s32 %r2, %r1;\nadd.f32 %r3, %r2, %r2;",
        "@%p1 mov.b32 %r3, %r1;",
        "and.b64 %r3, %r2, 0xffffffffffffffff;",
    ],
)
def test_addresses_that_are_not_known_are_not_guessed(address):
    assert only(f"mov.u32 %r1, %tid.x;\n{address}\nld.shared.b32 %r4, [%r3];").addresses is None


def test_guards_leave_threads_out():
    body = """
        mov.u32 %r1, %tid.x;
        and.b32 %r2, %r1, 3;
        setp.eq.s32 %p1, %r2, 0;
        shl.b32 %r3, %r1, 2;
        @{guard} st.shared.b32 [ %r3 + 0 ], %r4;
    """
    some = only(HEAD + body.format(guard="%p1")).addresses
    assert some.tolist() == [4 * lane if lane % 4 == 0 else -1 for lane in LANES]
    others = only(HEAD + body.format(guard="!%p1")).addresses
    assert ((some < 0) == (others >= 0)).all()
    assert only(HEAD + body.format(guard="%p2")).addresses is None


def test_a_warps_lane_may_speak_for_all():
    results = shared_instructions("""
.reqntid 64
        mov.u32 %r1, %tid.x;
        shr.u32 %r2, %r1, 5;
        shfl.sync.idx.b32 %r3, %r2, 0, 31, -1;
        bfe.u32 %r4, %r1, 2, 3;
        shl.b32 %r5, %r3, 9;
        lop3.b32 %r6, %r4, %r5, %r5, 0xfc;
        ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%r7, %r8}, [%r6];
    """)
    (matrices,) = results
    assert (matrices.kind, matrices.width_bytes) == ("load", 16)
    expected = [
        (lane // 4 % 8 | warp * 512) if lane < 16 else -1 for warp in (0, 1) for lane in LANES
    ]
    assert matrices.addresses.tolist() == expected


def test_matrices_take_a_wavefront_of_eight_rows_each():
    body = """
        mov.u32 %r1, %tid.x;
        shl.b32 %r2, %r1, {shift};
        ldmatrix.sync.aligned.m8n8.x4.shared.b16 {{%r3, %r4, %r5, %r6}}, [%r2];
    """
    together = only(HEAD + body.format(shift=4))
    assert wavefronts(together.addresses, together.width_bytes) == (1, 4, 4)
    apart = only(HEAD + body.format(shift=7))  # rows of 128 bytes: all eight in the same banks
    assert wavefronts(apart.addresses, apart.width_bytes) == (1, 32, 4)


def test_neighbouring_loads_are_one():
    body = """
        mov.u32 %r1, %tid.x;
        shl.b32 %r2, %r1, 5;
        ld.shared.b32 %r3, [%r2+16];
        ld.shared.b32 %r4, [%r2+20];
        ld.shared.v2.b32 {%r5, %r6}, [%r2+24];
        ld.shared.b32 %r7, [%r2+4];
        ld.shared.b32 %r8, [%r2+8];
    """
    widths = sorted(
        shared_instruction.width_bytes for shared_instruction in shared_instructions(HEAD + body)
    )
    assert widths == [4, 4, 16]  # 4 and 8 are no aligned pair
    parted = body.replace("ld.shared.v2", "bar.sync 0;\nld.shared.v2")
    widths = sorted(
        shared_instruction.width_bytes for shared_instruction in shared_instructions(HEAD + parted)
    )
    assert widths == [4, 4, 8, 8]


def test_copies_and_atomics():
    copied = only(
        "mov.u32 %r1, %tid.x;\ncp.async.cg.shared.global [ %r1 + 0 ], [ %rd1 + 0 ], 0x10;"
    )
    assert (copied.kind, copied.width_bytes) == ("copy", 16)
    added = only("mov.u32 %r1, %tid.x;\natom.shared.add.u32 %r2, [ %r1 + 0 ], 1;")
    assert (added.kind, added.addresses) == ("atomic", None)


IR = """
module attributes {"ttg.num-ctas" = 1 : i32, "ttg.num-warps" = 1 : i32} {
  tt.func public @kernel(%n: i32 loc("k.py":1:0)) attributes {noinline = false} {
    %a = arith.constant 0 : i32 loc(#loc1)
    scf.for %i = %a to %n step %a  : i32 {
      %b = arith.addi %a, %i : i32 loc(#loc2)
    } loc(#loc1)
    tt.return loc(#loc1)
  } loc(#loc1)
} loc(#loc1)
#loc1 = loc("/here/k.py":3:1)
#loc2 = loc("/here/k.py":5:2)
"""

LOOP = """
.file 1 "/here" "k.py"
.reqntid 32
    mov.u32 %r1, %tid.x;
    shl.b32 %r2, %r1, 3;
    .loc 1 3 1
    st.shared.b32 [%r2], %r3;
    bar.sync 0;
$L__BB0_1:
    .loc 1 5 2
    bar.sync 0;
    ld.shared.b32 %r3, [%r2];
    @%p1 bra $L__BB0_1;
    bar.sync 0;
    ret;
""".replace('"/here" "k.py"', '"/here/k.py"')


def test_code_runs_as_often_as_the_ir_of_its_line():
    function = parse_module(IR)
    (entry,) = function.blocks
    (body,) = next(
        operation.blocks for operation in entry.operations if operation.name == "scf.for"
    )
    assert [depth for _, depth in barriers_of(LOOP)] == [0, 1, 0]
    result = shared_traffic(LOOP, function, {entry: 10.0, body: 70.0}, 10)
    store, load = result.accesses
    assert (store.kind, store.line, store.requests) == ("store", "k.py:3", 10)
    # 8 bytes apart: lanes 0 and 16 meet
    assert (load.line, load.requests, load.wavefronts, load.least_wavefronts) == (
        "k.py:5", 70, 140, 70,
    )  # fmt: skip
    assert load.conflicts == 2.0
    assert result.barriers == 10 + 70 + 10  # the last one's line has no IR outside of the loop
    # shl, st, bar, bar, ret; bar, ld, bra
    assert result.instructions == 10 * 5 + 70 * 3
    assert result.guesses == ()


def test_what_tensor_cores_read():
    text = """
#mma = #ttg.nvidia_mma<{versionMajor = 3, versionMinor = 0, warpsPerCTA = [4, 1], instrShape = [16, 64, 16]}>
#shared = #ttg.nvmma_shared<{swizzlingByteWidth = 128, transposed = false, elementBitWidth = 16}>
module attributes {"ttg.num-ctas" = 1 : i32, "ttg.num-warps" = 4 : i32} {
  tt.func public @kernel(%n: i32 loc("k.py":1:0)) attributes {noinline = false} {
    %s = ttng.warp_group_dot %a, %b, %c {inputPrecision = 0 : i32} : !ttg.memdesc<128x32xbf16, #shared, #smem> * !ttg.memdesc<32x128xbf16, #shared, #smem> -> tensor<128x128xf32, #mma> loc(#loc1)
    tt.return loc(#loc1)
  } loc(#loc1)
} loc(#loc1)
#loc1 = loc("k.py":3:1)
"""  # noqa: E501
    function = parse_module(text)
    # 2 x 2 x 2 instructions of 64 x 64 x 16: each 64 x 16 of A and 16 x 64 of B, 2 bytes an element
    expected = 8 * (64 * 16 + 16 * 64) * 2
    assert tensor_shared_bytes(function, {function.blocks[0]: 3.0}) == 3 * expected
    of_registers = text.replace(
        "!ttg.memdesc<128x32xbf16, #shared, #smem>",
        "tensor<128x32xbf16, #ttg.dot_op<{opIdx = 0, parent = #mma, kWidth = 2}>>",
    )
    function = parse_module(of_registers)
    assert tensor_shared_bytes(function, {function.blocks[0]: 3.0}) == 3 * 8 * 16 * 64 * 2
