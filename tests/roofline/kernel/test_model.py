"""The modelled time of launches built by hand, against the same by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest

from solkit.core import (
    Access,
    Demand,
    Facts,
    InstructionCount,
    InstructionMix,
    KernelAnalysis,
    Launch,
    Occupancy,
)
from solkit.roofline import devices
from solkit.roofline.kernel.model import ahead, model, resident, spilled, unrolling

DEVICE = replace(devices.find("h100-sxm"), calibrated={}, launch_us=2.0)
SMS, CLOCK_HZ = 132, 1.98e9
TRAFFIC = (
    *("l1_wavefronts", "l2_read_bytes", "l2_write_bytes"),
    *("dram_read_bytes", "dram_write_bytes"),
)


def load(path="global", size=1 << 20, **changes):
    plain = Access("load", path, "x", "k.py:1", 64, size // 32, size // 32, size, size, 16)
    return replace(plain, **changes)


def kernel(blocks=1320, per_sm=10, stages=3, **asked):
    nothing = dict.fromkeys(TRAFFIC, 0)
    return KernelAnalysis(
        Facts(
            Launch("kernel", (blocks, 1, 1), 4, stages),
            registers=32,
            spills=0,
            shared_bytes=0,
            tensor_cores=False,
        ),
        occupancy=Occupancy(0.6, "registers", per_sm, blocks / (per_sm * SMS), 1.0),
        demand=Demand(**{"accesses": (load(),), "operations": {}, **nothing, **asked}),
    )


def with_facts(kernel, **facts):
    """The same launch with other facts."""
    return replace(kernel, facts=replace(kernel.facts, **facts))


def terms(kernel):
    return {term.name: term.time_ms for term in model(kernel, DEVICE).terms}


def test_traffic_takes_bytes_over_a_sustained_rate():
    found = terms(kernel(dram_read_bytes=10**9, dram_write_bytes=10**9, l2_read_bytes=10**9))
    dram = DEVICE.ceilings["dram"].value
    assert found["dram"] == pytest.approx(2e9 / (0.92 * dram) * 1e3)
    assert found["l2"] == pytest.approx(1e9 / (0.92 * DEVICE.ceilings["l2"].value) * 1e3)
    measured = replace(
        DEVICE, calibrated={"dram": replace(DEVICE.ceilings["dram"], value=dram / 2)}
    )
    slow = model(kernel(dram_read_bytes=10**9), measured)
    assert next(t.time_ms for t in slow.terms if t.name == "dram") == pytest.approx(2e12 / dram)


def test_pipes_wait_for_the_fullest_sm():
    even = terms(kernel(operations={"fp32": 10**12}))["fp32"]
    assert even == pytest.approx(1e12 / DEVICE.ceilings["fp32"].value * 1e3)
    uneven = terms(kernel(operations={"fp32": 10**12}, unevenness=1.5))["fp32"]
    assert uneven == pytest.approx(1.5 * even)


def test_legacy_tensor_instructions_are_slower_on_hopper():
    mix = InstructionMix((InstructionCount("tensor", "HMMA.16816.F32", 1, 1, 0, 0, 4096),), 1)
    modern = replace(mix, counts=(replace(mix.counts[0], opcode="HGMMA.64x128x16.F32"),))
    work = kernel(operations={"tensor.fp16": 10**12})
    old, new = (terms(with_facts(work, instructions=m))["tensor.fp16"] for m in (mix, modern))
    assert old / new == pytest.approx(1 / 0.63)


def test_latency_is_a_trip_for_each_wave_and_step():
    # everything from DRAM: 660 cycles a trip; 2 waves of blocks that wait once and 4 times more
    found = terms(
        kernel(2640, steps=4.0, l2_read_bytes=10**6, dram_read_bytes=10**6, chain_cycles=100.0)
    )
    assert found["latency"] == pytest.approx(2 * (660 * (1 + 4) + 100) / CLOCK_HZ * 1e3)
    # from L2 alone, 262; the longest block does twice the mean
    found = terms(kernel(2640, steps=4.0, l2_read_bytes=10**6, imbalance=2.0))
    assert found["latency"] == pytest.approx(3 * 262 * (1 + 4) / CLOCK_HZ * 1e3)


def test_copies_that_run_by_themselves_are_asked_for_ahead():
    assert ahead(kernel(stages=4, accesses=(load("async"),))) == 3
    assert ahead(kernel(stages=4)) == 1
    assert ahead(kernel(stages=4, accesses=(load("async"), load("global")))) == 1
    with_a_scalar = kernel(stages=4, accesses=(load("async"), load("global", 1024)))
    assert ahead(with_a_scalar) == 3


def unrolled(**asked):
    """A loop of 64 iterations whose one load stands five times in the code: 4 at once, and 1."""
    mix = InstructionMix((InstructionCount("global_load", "", 1, 5, 0, 16, 0),), 2)
    warps = 132 * 4
    asked = {"iterations": 64.0, "steps": 64.0, "loop_requests": 64 * warps} | asked
    return with_facts(kernel(blocks=132, **asked), instructions=mix)


def test_an_unrolled_loop_asks_for_several_steps_together():
    assert unrolling(unrolled()) == 5
    assert ahead(unrolled()) == 4
    assert ahead(unrolled(steps=2.0)) == 2
    assert ahead(unrolled(operations={"tensor.fp16": 10})) == 1
    # of the 5 that stand there, each iteration runs one
    assert terms(unrolled())["issue"] == pytest.approx(
        64 * 132 * 4 * 32 / DEVICE.ceilings["issue"].value * 1e3
    )


def test_instructions_of_ptx_stand_for_those_that_were_not_read():
    assert terms(kernel(blocks=132, instructions=100.0))["issue"] == pytest.approx(
        100 * 132 * 4 * 32 / DEVICE.ceilings["issue"].value * 1e3
    )
    assert "issue" not in terms(kernel(blocks=132))
    read = terms(unrolled(instructions=1e6))["issue"]
    assert read == terms(unrolled())["issue"]


def test_blocks_begin_one_by_one():
    # a million blocks begin 1.19 cycles apart, of one warp or of four
    work = kernel(2**20, per_sm=32, dram_read_bytes=10**8)
    for warps in (1, 4):
        found = model(with_facts(work, launch=replace(work.launch, num_warps=warps)), DEVICE)
        each = {term.name: term.time_ms for term in found.terms}
        assert each["dispatch"] == pytest.approx(2**20 * 1.19 / CLOCK_HZ * 1e3)
        assert found.limiter == "dispatch"
        rest = each["dram"] + each["latency"]
        assert found.time_ms == pytest.approx(0.002 + each["dispatch"] + rest / (1 + 32))
    # an H100 took 631.7 us for so many of stencil3d/seven_loads, which move little
    assert found.time_ms == pytest.approx(0.6317, rel=0.02)


def test_few_blocks_that_loop_begin_at_once():
    found = terms(kernel(blocks=SMS, steps=1000.0))
    assert found["dispatch"] == pytest.approx(132 * 1.19 / CLOCK_HZ * 1e3)
    assert found["dispatch"] < 1e-3 * found["latency"]


def test_what_does_not_hide_is_added():
    work = kernel(per_sm=4, dram_read_bytes=10**9, l2_read_bytes=10**9, operations={"fp32": 10**12})
    found = model(work, DEVICE)
    each = {term.name: term.time_ms for term in found.terms}
    assert found.limiter == "fp32"
    rest = each["dram"] + each["latency"] + each["dispatch"]  # L2 streams along with DRAM
    assert found.time_ms == pytest.approx(0.002 + each["fp32"] + rest / (1 + 4))


def test_no_more_blocks_hide_work_than_there_are():
    work = kernel(blocks=264, per_sm=10, dram_read_bytes=10**9, operations={"fp32": 10**12})
    assert resident(work, DEVICE) == 2
    each = {term.name: term.time_ms for term in model(work, DEVICE).terms}
    rest = each["dram"] + each["latency"] + each["dispatch"]
    assert model(work, DEVICE).time_ms == pytest.approx(0.002 + each["fp32"] + rest / (1 + 2))


def product(**asked):
    told = {"dram_read_bytes": 10**9, "operations": {"tensor.fp16": 10**12, "sfu": 10**9}}
    return kernel(per_sm=2, stages=3, **(told | asked))


def test_streams_of_copies_and_tensor_cores_run_side_by_side():
    found = model(product(accesses=(load("async"),)), DEVICE)
    each = {term.name: term.time_ms for term in found.terms}
    longest = max(each["dram"], each["tensor.fp16"])
    # what a block computes between its products hides behind the other block alone
    rest = (each["sfu"] + each["latency"]) / (1 + 2)
    # blocks begin while two others have two steps each under way
    rest += each["dispatch"] / (1 + 2 * 2)
    assert found.time_ms == pytest.approx(0.002 + longest + rest)


def test_products_of_plain_loads_wait_for_each_step():
    found = model(product(), DEVICE)
    each = {term.name: term.time_ms for term in found.terms}
    longest, *rest = sorted(
        (each[name] for name in ("dram", "tensor.fp16", "sfu", "latency", "dispatch")),
        reverse=True,
    )
    assert found.time_ms == pytest.approx(0.002 + longest + sum(rest) / 2)


def test_spills_go_through_l1_where_the_stacks_fit():
    counts = (
        InstructionCount("local_load", "", 1, 10, 0, 4, 0),
        InstructionCount("local_store", "", 0, 5, 0, 16, 0),
    )
    work = with_facts(
        kernel(blocks=132, per_sm=1, iterations=100.0),
        spills=64,
        instructions=InstructionMix(counts, 1),
    )
    # 4 warps of 132 blocks; 32 lanes; 10 words in each of 100 iterations, 5 times 16 bytes once
    moved = 132 * 4 * 32 * (10 * 4 * 100 + 5 * 16)
    assert spilled(work, DEVICE) == (moved, True)
    assert terms(work)["l1"] == pytest.approx(moved / 128 / SMS / CLOCK_HZ * 1e3)
    # 16 blocks of 4 warps with a KiB a lane: 2 MiB on an SM
    many = replace(work, occupancy=replace(work.occupancy, blocks_per_sm=16))
    deep = with_facts(many, spills=256)
    assert spilled(deep, DEVICE) == (moved, False)
    l2 = DEVICE.ceilings["l2"].value * 0.92
    assert terms(deep)["l2"] == pytest.approx(moved / l2 * 1e3)


def test_a_launch_that_was_not_followed_cannot_be_modelled():
    with pytest.raises(ValueError, match="kernel has not been analysed"):
        model(replace(kernel(), demand=None), DEVICE)
