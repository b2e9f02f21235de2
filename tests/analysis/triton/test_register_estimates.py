"""The lowered depth: what the IR decides is as compiled, and estimates are checked by hand."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from solkit.adapters.triton_ir import parse_module
from solkit.analysis.candidate import analyse_all
from solkit.analysis.triton.register_estimates import estimated_registers, estimated_shared_traffic
from solkit.core import AnalysisStatus, Depth
from solkit.kernelfiles import Workload
from solkit.roofline import devices

SOURCE = Path(__file__).with_name("followed.py")
SPEC = importlib.util.spec_from_file_location("followed", SOURCE)
followed = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(followed)

MODULE = """\
#blocked = #ttg.blocked<{{sizePerThread = [4], threadsPerWarp = [32], warpsPerCTA = [4], order = [0]}}>
#wide = #ttg.blocked<{{sizePerThread = [1], threadsPerWarp = [32], warpsPerCTA = [4], order = [0]}}>
module attributes {{"ttg.num-ctas" = 1 : i32, "ttg.num-warps" = {warps} : i32, ttg.target = "cuda:90", "ttg.threads-per-warp" = 32 : i32}} {{
  tt.func public @kernel(%x: !tt.ptr<f32>) attributes {{noinline = false}} {{
{body}
    tt.return
  }}
}}
"""  # noqa: E501 - as the compiler writes it
TENSOR, WIDE = "tensor<1024xf32, #blocked>", "tensor<1024xf32, #wide>"
POINTERS = "tensor<1024x!tt.ptr<f32>, #blocked>"


def module(*lines, warps=4):
    return parse_module(MODULE.format(body="\n".join(f"    {line}" for line in lines), warps=warps))


START = (
    f"%p = tt.splat %x : !tt.ptr<f32> -> {POINTERS}",
    f"%a = tt.load %p : {POINTERS}",
)


def test_values_count_from_where_they_are_computed_to_their_last_use():
    # 1024 floats on 128 threads: 8 registers each; 2 for the pointer, 15 for all else
    one = module(*START, f"tt.store %p, %a : {POINTERS}")
    assert estimated_registers(one) == (17 + 8, 0)
    together = module(
        *START,
        f"%b = tt.load %p : {POINTERS}",
        f"%c = arith.addf %a, %b : {TENSOR}",
        f"tt.store %p, %c : {POINTERS}",
    )
    assert estimated_registers(together) == (17 + 16, 0)
    apart = module(
        *START,
        f"tt.store %p, %a : {POINTERS}",
        f"%b = tt.load %p : {POINTERS}",
        f"tt.store %p, %b : {POINTERS}",
    )
    assert estimated_registers(apart) == (17 + 8, 0)


def test_what_a_loop_carries_and_what_it_uses_from_outside_live_through_it():
    looped = module(
        *START,
        "%n = arith.constant 8 : i32",
        f"%z = arith.constant dense<0.0> : {TENSOR}",
        f"%s = scf.for %i = %n to %n step %n iter_args(%c = %z) -> ({TENSOR})  : i32 {{",
        f"  %d = arith.addf %c, %a : {TENSOR}",
        f"  %e = tt.load %p : {POINTERS}",
        f"  %f = arith.addf %d, %e : {TENSOR}",
        f"  scf.yield %f : {TENSOR}",
        "}",
        f"tt.store %p, %s : {POINTERS}",
    )
    # the load before the loop, the sum and the load within it
    assert estimated_registers(looped) == (17 + 3 * 8, 0)


def test_what_does_not_fit_is_spilled():
    many = module(
        *START,
        *(f"%v{i} = tt.load %p : {POINTERS}" for i in range(40)),
        *(f"tt.store %p, %v{i} : {POINTERS}" for i in range(40)),
        f"tt.store %p, %a : {POINTERS}",
    )
    most = 17 + 41 * 8
    assert estimated_registers(many) == (255, most - 255)
    assert estimated_registers(many, limit=64) == (64, most - 64)


def test_conversions_go_through_shared_memory():
    converted = module(*START, f"%b = ttg.convert_layout %a : {TENSOR} -> {WIDE}")
    shared_traffic = estimated_shared_traffic(converted, {}, programs=10)
    # 4 KiB in 128-byte wavefronts, out and back
    assert [(access.kind, access.wavefronts) for access in shared_traffic.accesses] == [
        ("store", 10 * 32),
        ("load", 10 * 32),
    ]
    assert shared_traffic.barriers == 10


def test_warps_exchange_what_they_reduce_together():
    reduced = module(
        *START,
        '%m = "tt.reduce"(%a) <{axis = 0 : i32}> ({',
        "^bb0(%l: f32, %r: f32):",
        "  %s = arith.addf %l, %r : f32",
        "  tt.reduce.return %s : f32",
        f"}}) : ({TENSOR}) -> f32",
    )
    shared_traffic = estimated_shared_traffic(reduced, {}, programs=1)
    # each of 4 warps stores its part and loads the sum; one loads the parts and stores their sum
    assert [(access.kind, access.wavefronts) for access in shared_traffic.accesses] == [
        ("store", 5),
        ("load", 5),
    ]
    assert shared_traffic.barriers == 2


def test_conversions_within_a_warp_need_no_shared_memory():
    lanes = MODULE.replace("warpsPerCTA = [4]", "warpsPerCTA = [1]")
    body = "\n".join([*START, f"%b = ttg.convert_layout %a : {TENSOR} -> {WIDE}"])
    shared_traffic = estimated_shared_traffic(
        parse_module(lanes.format(body=body, warps=1)), {}, programs=10
    )
    assert (shared_traffic.accesses, shared_traffic.barriers) == ((), 0)


@pytest.fixture
def depths(in_child):
    """Lowered and compiled, of the one kernel that a case launches."""

    def run(case, device="h100", **sizes):
        def child():
            candidates = [(lambda: Workload((), {}, None, lambda: case("cuda", **sizes)), {})]
            target = devices.find(device)
            return [
                analyse_all(candidates, target, depth=depth)[0]
                for depth in (Depth.LOWERED, Depth.COMPILED)
            ]

        analyses = in_child(child, device=device)
        assert [analysis.status for analysis in analyses] == [AnalysisStatus.COMPLETE] * 2
        assert [analysis.own[0].facts.notes for analysis in analyses] == [()] * 2
        return [analysis.own[0] for analysis in analyses]

    return run


OF_THE_IR = (
    *("operations", "steps", "imbalance", "unevenness", "iterations", "chain_cycles"),
    *("tensor_shared_bytes", "programs_sampled"),
)
CASES = ("copy", "strided", "gather", "product", "stencil", "transposing")


@pytest.mark.quick("transposing-b200")
@pytest.mark.parametrize("device", [pytest.param("a100", marks=pytest.mark.slow), "h100", "b200"])
@pytest.mark.parametrize("name", CASES)
def test_what_the_ir_decides_is_as_compiled(name, device, depths):
    lowered, compiled = depths(getattr(followed, name), device)
    one, other = lowered.facts, compiled.facts
    assert (one.depth, other.depth) == (Depth.LOWERED, Depth.COMPILED)
    for field in ("launch", "shared_bytes", "tensor_cores", "error"):
        assert getattr(one, field) == getattr(other, field), field
    for field in OF_THE_IR:
        assert getattr(one.requests, field) == getattr(other.requests, field), field
    assert one.estimated
    assert not set(one.estimated) & {*OF_THE_IR, "shared_bytes", "tensor_cores"}
    assert one.instructions
    assert one.instructions.paces
    assert other.estimated == ()


@pytest.mark.quick("strided", "gather", "transposing")
@pytest.mark.parametrize("name", CASES)
def test_estimates_are_close_to_the_compile(name, depths):
    lowered, compiled = depths(getattr(followed, name))
    widths = [[a.vector_bytes for a in item.demand.accesses] for item in (lowered, compiled)]
    assert widths[0] == widths[1]
    assert lowered.facts.registers == pytest.approx(compiled.facts.registers, rel=1.0)
    assert lowered.model.time_ms == pytest.approx(compiled.model.time_ms, rel=0.5)


@pytest.mark.slow
def test_a_kernel_that_cannot_load_says_why_at_both_depths(in_child):
    def child():
        def run():
            followed.product("cuda", 512, 512, 512, tiles=(256, 256, 128))

        candidates = [(lambda: Workload((), {}, None, run), {})]
        errors = [
            analyse_all(candidates, devices.find("h100"), depth=depth)[0].kernels[0].error
            for depth in (Depth.LOWERED, Depth.COMPILED)
        ]
        return errors

    lowered, compiled = in_child(child)
    assert lowered == compiled
    assert "shared memory" in lowered
