"""Reading TTGIR and PTX: a module written by hand in the compiler's notation."""

from __future__ import annotations

import pytest

from solkit.adapters.triton_ir import IrError, element_bits, parse_module
from solkit.adapters.triton_ptx import vector_widths

MODULE = """\
#blocked = #ttg.blocked<{sizePerThread = [1, 8], threadsPerWarp = [4, 8], warpsPerCTA = [2, 1], order = [1, 0]}>
#linear = #ttg.linear<{register = [[0, 1], [0, 2]], lane = [[1, 0], [2, 0], [4, 0], [8, 0], [16, 0]], warp = [[32, 0]], block = []}>
#loc = loc("/home/user/kernel.py":5:0)
#loc1 = loc(unknown)
#loc2 = loc("/home/user/kernel.py":7:16)
#loc3 = loc("/lib/triton/standard.py":43:17)
#loc4 = loc("x"(#loc2))
#loc5 = loc(callsite(#loc3 at #loc4))
#loc6 = loc(fused[#loc2, #loc3])
module attributes {"ttg.num-ctas" = 2 : i32, "ttg.num-warps" = 8 : i32, ttg.target = "cuda:90", "ttg.threads-per-warp" = 32 : i32} {
  tt.func public @kernel(%x: !tt.ptr<bf16> {tt.divisibility = 16 : i32} loc("x"(#loc)), %n: i32 loc("n"(#loc))) attributes {noinline = false} {
    %c0_i32 = arith.constant 0 : i32 loc(#loc1)
    %true = arith.constant true loc(#loc1)
    %at = tt.make_range {end = 64 : i32, start = 0 : i32} : tensor<64xi32, #ttg.slice<{dim = 1, parent = #blocked}>> loc(#loc5)
    %0 = arith.cmpi sge, %c0_i32, %n : i32 loc(#loc2)
    cf.cond_br %0, ^bb1, ^bb2 loc(#loc2)
  ^bb1:  // pred: ^bb0
    tt.return loc(#loc6)
  ^bb2:  // pred: ^bb0
    %sum:2 = scf.for %i = %c0_i32 to %n step %n iter_args(%a = %at, %b = %c0_i32) -> (tensor<64xi32, #ttg.slice<{dim = 1, parent = #blocked}>>, i32)  : i32 {
      %p = tt.splat %x : !tt.ptr<bf16> -> tensor<64x32x!tt.ptr<bf16>, #blocked> loc(#loc2)
      %v = tt.load %p : tensor<64x32x!tt.ptr<bf16>, #blocked> loc(#loc5)
      %m = "tt.reduce"(%v) <{axis = 1 : i32}> ({
      ^bb0(%l: bf16 loc(callsite(#loc1 at #loc5)), %r: bf16 loc(callsite(#loc1 at #loc5))):
        %s = arith.addf %l, %r : bf16 loc(#loc2)
        tt.reduce.return %s : bf16 loc(#loc2)
      }) : (tensor<64x32xbf16, #blocked>) -> tensor<64xbf16, #ttg.slice<{dim = 1, parent = #blocked}>> loc(#loc2)
      %t = tt.trans %v {order = array<i32: 1, 0>} : tensor<64x32xbf16, #blocked> -> tensor<32x64xbf16, #linear> loc(#loc2)
      scf.yield %a, %b : tensor<64xi32, #ttg.slice<{dim = 1, parent = #blocked}>>, i32 loc(#loc2)
    } loc(#loc2)
    tt.return loc(#loc2)
  } loc(#loc)
} loc(#loc)
"""  # noqa: E501 - as the compiler writes it


@pytest.fixture(scope="module")
def function():
    return parse_module(MODULE)


@pytest.fixture(scope="module")
def operations(function):
    return {name: op for block in function.blocks for op in block.walk() for name in op.results}


def test_the_kernel_and_its_blocks(function):
    assert (function.name, function.num_warps, function.num_ctas) == ("kernel", 8, 2)
    assert function.arguments == (("%x", "!tt.ptr<bf16>"), ("%n", "i32"))
    assert [block.label for block in function.blocks] == ["", "^bb1", "^bb2"]
    assert function.blocks[0].operations[-1].name == "cf.cond_br"


def test_a_loop_and_its_body(operations):
    loop = operations["%sum#1"]
    assert loop.name == "scf.for"
    assert loop.results == ("%sum#0", "%sum#1")
    (body,) = loop.blocks
    assert [op.name for op in body.operations] == [
        *("tt.splat", "tt.load", "tt.reduce", "tt.trans", "scf.yield")
    ]


def test_a_reduction_has_a_block_of_its_own(operations):
    reduction = operations["%m"]
    assert reduction.attribute("axis") == 1
    assert reduction.operands == ("%v",)
    assert reduction.result_type.shape == (64,)
    assert reduction.blocks[0].arguments == ("%l", "%r")
    assert reduction.blocks[0].operations[0].name == "arith.addf"


def test_names_that_loops_side_by_side_have_in_common():
    loop = """    %s:2 = scf.for %i = %n to %n step %n iter_args(%a = %n, %b = %n) -> (i32, i32) {
      %v = arith.addi %a, %i : i32
      scf.yield %v, %b : i32, i32
    }
"""
    head, _, tail = MODULE.partition("    tt.return loc(#loc6)\n")
    first, second = (
        operation
        for operation in parse_module(head + loop + loop.replace("%s:2", "%t:2") + tail)
        .blocks[1]
        .walk()
        if operation.name == "scf.for"
    )
    assert first.text.startswith("%i = %n to %n step %n iter_args(%a = %n, %b = %n)")
    assert (first.results, second.results) == (("%s#0", "%s#1"), ("%t#0", "%t#1"))
    for a, b in zip(first.blocks[0].operations[:1], second.blocks[0].operations[:1]):
        assert {*a.results, *a.operands} == {"%v", "%a", "%i"}
        assert {*a.results, *a.operands}.isdisjoint((*b.results, *b.operands))
    added, yielded = second.blocks[0].operations
    i, _, _, _, carried, _, kept, _ = second.operands
    assert added.operands == (carried, i)
    assert yielded.operands == (*added.results, kept)


def test_types_and_layouts(operations):
    pointer = operations["%p"].result_type
    assert pointer.shape == (64, 32)
    assert pointer.element == "!tt.ptr<bf16>"
    assert pointer.pointee_bits == 16
    assert pointer.layout.ints("threadsPerWarp") == (4, 8)
    sliced = operations["%at"].result_type
    assert sliced.layout.kind == "slice"
    assert sliced.layout.ints("dim") == (1,)
    assert sliced.layout.parent == pointer.layout
    turned = operations["%t"].result_type
    assert dict(turned.layout.bases)["register"] == ((0, 1), (0, 2))
    assert operations["%t"].integers("order") == (1, 0)
    assert operations["%true"].result_type.element == "i1"
    with pytest.raises(IrError, match="bf16 is not a pointer"):
        assert operations["%v"].result_type.pointee_bits


def test_places_run_from_the_innermost_to_its_callers(operations):
    assert [str(place) for place in operations["%at"].places] == ["standard.py:43", "kernel.py:7"]
    assert operations["%c0_i32"].places == ()


@pytest.mark.parametrize(
    ("element", "bits"),
    [("bf16", 16), ("f8E4M3FN", 8), ("f8E5M2", 8), ("i1", 8), ("i64", 64), ("!tt.ptr<f32>", 64)],
)
def test_bits(element, bits):
    assert element_bits(element) == bits


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("module {}", "no public function"),
        (MODULE[: MODULE.index("    tt.return loc(#loc2)")], "ends within a region"),
    ],
)
def test_text_that_is_not_understood(text, reason):
    with pytest.raises(IrError, match=reason):
        parse_module(text)


PTX = """\
	.loc	1 7 16                          // kernel.py:7:16
	@%p1 ld.global.v4.b32 { %r1, %r2, %r3, %r4 }, [ %rd1 + 0 ];
	@%p1 ld.global.L1::evict_last.b16 { %rs1 }, [ %rd1 + 0 ];
	.loc	1 8 4, function_name $L__info_string0, inlined_at 1 7 16
	st.global.v2.b64 [ %rd2 + 0 ], { %rd3, %rd4 };
	cp.async.cg.shared.global [ %r16 + 0 ], [ %rd28 + 0 ], 0x10, %r17;
	cp.async.ca.shared.global [ %r16 + 0 ], [ %rd28 + 0 ], 0x4, %r17;
	.loc	2 9 1
	atom.global.gpu.acq_rel.add.f32 %r5, [ %rd5 + 0 ], %r6;
	ld.shared.b32 %r7, [%r8];
	.file	1 "/home/user/kernel.py"
	.file	2 "/home/user/other.py"
"""


def test_an_array_in_local_memory_is_no_place():
    declared = "\t.local .align 8 .b8 \t__local_depot0[8];\n"
    assert vector_widths(declared + PTX) == vector_widths(PTX)


def test_widths_of_memory_instructions_by_place():
    assert vector_widths(PTX) == {
        ("kernel.py", 7, 16, "load"): 16,
        ("kernel.py", 8, 4, "store"): 16,
        ("kernel.py", 8, 4, "async"): 16,
        ("other.py", 9, 1, "atomic"): 4,
    }
