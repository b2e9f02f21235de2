"""The reader of AMD's assembly."""

import pytest

from solkit.adapters.amdgcn import access_of, read_code, vector_widths
from solkit.analysis.common.instructions import instruction_mix

TEXT = """\
\t.text
k:                                      ; @k
.Lfunc_begin0:
\t.file\t1 "/a" "k.py"
\t.loc\t1 5 0 prologue_end              ; k.py:5:0
\ts_load_dwordx4 s[4:7], s[0:1], 0x8
.Ltmp0:
\t.loc\t1 7 10                          ; library.py:3:1 @[ k.py:7:10 ]
\tbuffer_load_dwordx4 v[4:7], v3, s[0:3], 0 offen
\tv_mov_b32_e32 v1, 0
.LBB0_1:                                ; =>This Inner Loop Header: Depth=1
\t.loc\t1 9 2                           ; k.py:9:2
\tds_read2st64_b64 v[0:3], v9
\tv_mfma_f32_32x32x8_f16 v[0:15], v[2:3], v[4:5], v[0:15]
\tv_pk_fma_f32 v[0:1], v[2:3], v[4:5], v[0:1]
\ts_cbranch_scc1 .LBB0_1
\ts_branch .LBB0_3
; %bb.2:
\tv_exp_f32_e32 v0, v0
.LBB0_3:
\t.loc\t1 12 4                          ; k.py:12:4
\tglobal_store_short v[0:1], v2, off
\ts_endpgm
.Lfunc_end0:
other:                                  ; @other
\tv_exp_f32_e32 v0, v0
\t.amdhsa_kernel k
"""


def test_the_kernel_is_cut_into_blocks_and_loops():
    code = read_code(TEXT)
    assert (code.name, code.loops, code.language) == ("k", 1, "gcn")
    assert [(len(block.instructions), block.depth) for block in code.blocks] == [
        (3, 0),
        (4, 1),
        (1, 0),
        (2, 0),
    ]
    assert code.blocks[1].successors == (1, 2)  # and nothing leads to the exponential


def test_instructions_are_counted_by_kind_depth_and_width():
    mix = instruction_mix(read_code(TEXT))
    rows = {(n.kind, n.depth): (n.count, n.width_bytes, n.warp_flops) for n in mix.counts}
    assert rows["tensor", 1] == (1, 0, 2 * 32 * 32 * 8)
    assert rows["fp32", 1] == (1, 0, 64 * 4)
    assert rows["global_load", 0] == (1, 16, 0)
    assert rows["shared_load", 1] == (1, 16, 0)
    assert rows["global_store", 0] == (1, 2, 0)
    assert ("sfu", 0) not in rows
    assert mix.lines["k.py:7"] == 2  # inlined library code counts for the line that calls it


def test_widths_are_by_place_of_the_source():
    assert vector_widths(TEXT) == {
        ("k.py", 7, 10, "load"): 16,
        ("k.py", 12, 4, "store"): 2,
    }


@pytest.mark.parametrize(
    ("opcode", "expected"),
    [
        ("buffer_load_ubyte", ("global", "load", 1)),
        ("buffer_load_short_d16_hi", ("global", "load", 2)),
        ("buffer_load_dword", ("global", "load", 4)),
        ("global_load_dwordx3", ("global", "load", 12)),
        ("flat_store_dwordx2", ("global", "store", 8)),
        ("global_atomic_add_f32", ("global", "atomic", 4)),
        ("global_atomic_pk_add_f16", ("global", "atomic", 2)),
        ("scratch_store_dword", ("local", "store", 4)),
        ("ds_read_b128", ("shared", "load", 16)),
        ("ds_write2_b32", ("shared", "store", 8)),
        ("ds_read_u16", ("shared", "load", 2)),
        ("v_add_f32_e32", None),
        ("s_load_dwordx4", None),
    ],
)
def test_memory_instructions_have_space_kind_and_width(opcode, expected):
    assert access_of(opcode) == expected
