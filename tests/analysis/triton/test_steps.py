"""Steps of single operations, and runs that one access moves, by hand."""

from __future__ import annotations

import pytest

from solkit.adapters.triton_ir import parse_module
from solkit.analysis.triton.coalescing import access_runs
from solkit.analysis.triton.steps import Steps

HEAD = """\
#blocked = #ttg.blocked<{sizePerThread = [1, 4], threadsPerWarp = [4, 8], warpsPerCTA = [4, 1], order = [1, 0]}>
#row = #ttg.slice<{dim = 0, parent = #blocked}>
#column = #ttg.slice<{dim = 1, parent = #blocked}>
#mma = #ttg.nvidia_mma<{versionMajor = 3, versionMinor = 0, warpsPerCTA = [4, 1], instrShape = [16, 128, 16]}>
#shared = #ttg.nvmma_shared<{swizzlingByteWidth = 128, transposed = false, elementBitWidth = 16}>
#smem = #ttg.shared_memory
module attributes {"ttg.num-ctas" = 1 : i32, "ttg.num-warps" = 4 : i32, ttg.target = "cuda:90", "ttg.threads-per-warp" = 32 : i32} {
  tt.func public @kernel(%x: !tt.ptr<f16> {tt.divisibility = 16 : i32}, %n: i32, %m: i32 {tt.divisibility = 16 : i32}, %a: !ttg.memdesc<128x64xf16, #shared, #smem>, %b: !ttg.memdesc<64x128xf16, #shared, #smem>, %c: tensor<128x128xf32, #mma>) attributes {noinline = false} {
"""  # noqa: E501 - as the compiler writes it
ROW, COLUMN, TILE = (
    "tensor<64xi32, #row>",
    "tensor<32xi32, #column>",
    "tensor<32x64xi32, #blocked>",
)
FLOATS = "tensor<32x64xf32, #blocked>"
POINTERS = "tensor<32x64x!tt.ptr<f16>, #blocked>"


def function(*lines):
    return parse_module(
        HEAD + "\n".join(f"    {line}" for line in lines) + "\n    tt.return\n  }\n}\n"
    )


def counts(*lines):
    """Of each kind, of the last line's operation."""
    parsed = function(*lines)
    steps = Steps(parsed)
    results = {}
    for step in steps.of(parsed.blocks[0].operations[-2]):
        results[step.kind] = results.get(step.kind, 0) + step.count
    return results


def tile(stride):
    """Pointers into a matrix whose rows are `stride` apart."""
    return (
        f"%j = tt.make_range {{end = 64 : i32, start = 0 : i32}} : {ROW}",
        f"%i = tt.make_range {{end = 32 : i32, start = 0 : i32}} : {COLUMN}",
        f"%je = tt.expand_dims %j {{axis = 0 : i32}} : {ROW} -> tensor<1x64xi32, #blocked>",
        f"%ie = tt.expand_dims %i {{axis = 1 : i32}} : {COLUMN} -> tensor<32x1xi32, #blocked>",
        f"%st = tt.splat {stride} : i32 -> tensor<32x1xi32, #blocked>",
        "%ir = arith.muli %ie, %st : tensor<32x1xi32, #blocked>",
        f"%ib = tt.broadcast %ir : tensor<32x1xi32, #blocked> -> {TILE}",
        f"%jb = tt.broadcast %je : tensor<1x64xi32, #blocked> -> {TILE}",
        f"%o = arith.addi %ib, %jb : {TILE}",
        f"%s = tt.splat %x : !tt.ptr<f16> -> {POINTERS}",
        f"%p = tt.addptr %s, %o : {POINTERS}, {TILE}",
    )


def test_integers_that_differ_by_constants_take_one_register():
    # a thread has 2 rows (32 over 16) and 8 columns (64 over 8 lanes, 4 in a row)
    with_stride = Steps(function(*tile("%m"))).spreads
    assert with_stride["%o"] == (2, 1)
    plain = Steps(function("%e = arith.constant 64 : i32", *tile("%e"))).spreads
    assert plain["%o"] == (1, 1)
    assert counts(*tile("%m")[:9]) == {"int32": 2}


@pytest.mark.parametrize(("stride", "run"), [("%m", 8), ("%n", 1)])
def test_a_row_is_loaded_at_once_if_each_begins_aligned(stride, run):
    parsed = function(*tile(stride), f"%v = tt.load %p : {POINTERS}")
    (access_run,) = access_runs(parsed).values()
    assert access_run == run
    loads = counts(*tile(stride), f"%v = tt.load %p : {POINTERS}")["global_load"]
    assert loads == 16 / min(run, 4)  # 16 halves of a thread; 4 in a row


def test_nothing_is_known_of_runs_behind_a_reshape():
    parsed = function(
        f"%z = tt.make_range {{end = 1 : i32, start = 0 : i32}} : {ROW.replace('64', '1')}",
        f"%b = tt.broadcast %z : {ROW.replace('64', '1')} -> {ROW.replace('64', '2048')}",
        f"%r = tt.reshape %b : {ROW.replace('64', '2048')} -> {TILE}",
        f"%o = arith.muli %r, %r : {TILE}",
        f"%s = tt.splat %x : !tt.ptr<f16> -> {POINTERS}",
        f"%p = tt.addptr %s, %o : {POINTERS}, {TILE}",
        f"%v = tt.load %p : {POINTERS}",
    )
    assert list(access_runs(parsed).values()) == [1]


def test_a_group_of_warps_multiplies_64_rows_at_once():
    # 128 x 128 x 64 in steps of 64 x 128 x 16 by 4 warps together: 2 x 4
    line = (
        "%d = ttng.warp_group_dot %a, %b, %c {inputPrecision = 0 : i32, isAsync = true} : "
        "!ttg.memdesc<128x64xf16, #shared, #smem> * !ttg.memdesc<64x128xf16, #shared, #smem> "
        "-> tensor<128x128xf32, #mma>"
    )
    assert counts(line)["tensor"] == 8


@pytest.mark.parametrize(
    ("operation", "kind", "count"),
    [
        (f"arith.truncf %f : {FLOATS} to tensor<32x64xf16, #blocked>", "convert", 8),
        ("arith.extf %h : tensor<32x64xbf16, #blocked> to " + FLOATS, "int32", 16),
        (f"math.exp2 %f : {FLOATS}", "sfu", 16),
        (f"arith.addf %f, %f : {FLOATS}", "fp32", 16),
        (f"math.absf %f : {FLOATS}", "fp32", 0),
    ],
)
def test_instructions_of_an_element(operation, kind, count):
    first = (
        f"%f = arith.constant dense<0.0> : {FLOATS}",
        "%h = arith.constant dense<0.0> : tensor<32x64xbf16, #blocked>",
    )
    assert counts(*first, f"%r = {operation}").get(kind, 0) == count
