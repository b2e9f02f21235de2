"""Estimated machine code: counts and paces of short kernels, by hand."""

from __future__ import annotations

import pytest

from solkit.adapters.triton_ir import parse_module
from solkit.analysis.triton.machine import estimated_mix

MODULE = """\
#blocked = #ttg.blocked<{{sizePerThread = [4], threadsPerWarp = [32], warpsPerCTA = [4], order = [0]}}>
module attributes {{"ttg.num-ctas" = 1 : i32, "ttg.num-warps" = 4 : i32, ttg.target = "cuda:90", "ttg.threads-per-warp" = 32 : i32}} {{
  tt.func public @kernel(%x: !tt.ptr<f32> {{tt.divisibility = 16 : i32}}, %n: i32) attributes {{noinline = false}} {{
{body}
    tt.return
  }}
}}
"""  # noqa: E501 - as the compiler writes it
TENSOR = "tensor<1024xf32, #blocked>"
POINTERS = "tensor<1024x!tt.ptr<f32>, #blocked>"
INDICES = "tensor<1024xi32, #blocked>"
START = (
    f"%i = tt.make_range {{end = 1024 : i32, start = 0 : i32}} : {INDICES}",
    f"%s = tt.splat %x : !tt.ptr<f32> -> {POINTERS}",
    f"%p = tt.addptr %s, %i : {POINTERS}, {INDICES}",
    f"%a = tt.load %p : {POINTERS}",
)
MOVES = 1.1
"""One move to ten other instructions."""


def mix(*lines):
    return estimated_mix(
        parse_module(MODULE.format(body="\n".join(f"    {line}" for line in lines)))
    )


def looped(*body, low="%n"):
    bounds = f"{low} to %e step %w"
    head = f"scf.for %k = {bounds}  : i32 {{"
    return (
        "%e = arith.constant 8 : i32",
        "%z = arith.constant 0 : i32",
        "%w = arith.constant 1 : i32",
        *START,
        head,
        *body,
        "}",
    )


def test_a_thread_loads_and_adds_its_elements():
    result = mix(*START, f"%b = arith.addf %a, %a : {TENSOR}", f"tt.store %p, %b : {POINTERS}")
    # 1024 floats on 128 threads: 8 each, in 2 accesses of 16 bytes
    assert {kind: result.of(kind) for kind in ("fp32", "global_load", "global_store")} == {
        "fp32": 8,
        "global_load": 2,
        "global_store": 2,
    }
    assert {count.width_bytes for count in result.counts if count.kind == "global_load"} == {16}
    # the sum waits for the loads: nearly one trip of 600 cycles
    (pace,) = result.paces
    assert pace.trips == pytest.approx(1.0, abs=0.05)


def test_loads_that_do_not_depend_on_each_other_wait_together():
    lines = []
    for name in "bcd":
        lines.append(f"%{name} = tt.load %p : {POINTERS}")
        lines.append(f"%{name}s = arith.addf %{name}, %a : {TENSOR}")
    (pace,) = mix(*START, *lines).paces
    assert pace.trips == pytest.approx(1.0, abs=0.1)


def test_a_load_of_what_another_loads_waits_again():
    dependent = (
        f"%j = arith.fptosi %a : {TENSOR} to {INDICES}",
        f"%q = tt.addptr %s, %j : {POINTERS}, {INDICES}",
        f"%b = tt.load %q : {POINTERS}",
        f"%c = arith.addf %b, %b : {TENSOR}",
    )
    result = mix(*START, *dependent)
    (pace,) = result.paces
    assert pace.trips == pytest.approx(2.0, abs=0.1)
    assert result.of("global_load") == 2 + 8  # those that data place are loaded one by one


def test_a_loop_of_constant_length_becomes_straight_code():
    body = (f"%b = arith.addf %a, %a : {TENSOR}", f"tt.store %p, %b : {POINTERS}")
    result = mix(*looped(*body, low="%z"))
    assert (result.loops, result.of("fp32"), result.of("global_store")) == (0, 8 * 8, 8 * 2)
    assert {count.depth for count in result.counts} == {0}


def test_a_short_loop_is_unrolled_by_four_and_a_long_one_is_not():
    short = mix(*looped(f"%b = tt.load %p : {POINTERS}", f"%c = arith.addf %b, %a : {TENSOR}"))
    assert short.loops == 1
    loads = [(item.depth, item.count) for item in short.counts if item.kind == "global_load"]
    assert loads == [(0, 2), (1, 4 * 2)]
    sums = [f"%c{i} = arith.addf %a, %a : {TENSOR}" for i in range(20)]
    long = mix(*looped(f"%b = tt.load %p : {POINTERS}", *sums))
    assert [item.count for item in long.counts if item.kind == "fp32"] == [20 * 8]


def test_a_product_that_is_added_is_one_instruction():
    apart = mix(*START, f"%b = arith.mulf %a, %a : {TENSOR}")
    fused = mix(*START, f"%b = arith.mulf %a, %a : {TENSOR}", f"%c = arith.addf %b, %a : {TENSOR}")
    assert apart.of("fp32") == fused.of("fp32") == 8


def test_lanes_that_share_a_row_exchange_it_in_five_steps_and_warps_in_two():
    result = mix(
        *START,
        '%m = "tt.reduce"(%a) <{axis = 0 : i32}> ({',
        "^bb0(%l: f32, %r: f32):",
        "  %t = arith.addf %l, %r : f32",
        "  tt.reduce.return %t : f32",
        f"}}) : ({TENSOR}) -> f32",
    )
    # 7 sums in a thread, one after each shuffle: 32 lanes, 4 warps
    assert (result.of("warp"), result.of("fp32"), result.of("barrier")) == (7, 7 + 7, 2)


def test_spilled_words_are_stored_and_loaded():
    function = parse_module(MODULE.format(body="\n".join(START)))
    mix = estimated_mix(function, spills=9)
    assert (mix.of("local_load"), mix.of("local_store")) == (9, 9)


def test_every_ten_instructions_need_a_move():
    result = mix(*START)
    others = sum(item.count for item in result.counts if item.kind != "move")
    assert result.total == pytest.approx((others + 6) * MOVES, abs=1)
