"""The modelled time of launches built by hand, against the same by hand."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from solkit.core import (
    Access,
    Contention,
    Demand,
    Facts,
    InstructionCount,
    InstructionMix,
    KernelAnalysis,
    Launch,
    Occupancy,
    Pace,
    Work,
)
from solkit.roofline import devices
from solkit.roofline.bound import bound
from solkit.roofline.kernel.gap import decompose_gap
from solkit.roofline.kernel.model import (
    dram_rate,
    executed,
    model_launch_time,
    overlaps_products,
    prefetched_steps,
    resident,
    spill_traffic,
    unrolling,
)

DEVICE = replace(devices.find("h100-sxm"), calibrated={}, launch_us=2.0)
SMS, CLOCK_HZ = 132, 1.98e9
LAUNCH_MS = 0.002 + 0.00027
TRAFFIC = (
    *("l1_wavefronts", "l2_read_bytes", "l2_write_bytes"),
    *("dram_read_bytes", "dram_write_bytes"),
)


def load(path="global", size=1 << 20, **changes):
    plain = Access("load", path, "x", "k.py:1", 64, size // 32, size // 32, size, size, 16)
    return replace(plain, **changes)


def kernel(blocks=1320, per_sm=10, stages=3, **fields):
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
        demand=Demand(**{"accesses": (load(),), "operations": {}, **nothing, **fields}),
    )


def with_facts(kernel, **facts):
    """The same launch with other facts."""
    return replace(kernel, facts=replace(kernel.facts, **facts))


def terms(kernel):
    return {term.name: term.time_ms for term in model_launch_time(kernel, DEVICE).terms}


def test_traffic_takes_bytes_over_a_sustained_rate():
    results = terms(kernel(dram_read_bytes=10**9, dram_write_bytes=10**9, l2_read_bytes=10**9))
    dram = DEVICE.ceilings["dram"].value
    assert results["dram"] == pytest.approx(2e9 / (0.92 * dram) * 1e3)
    assert results["l2"] == pytest.approx(1e9 / (0.92 * DEVICE.ceilings["l2"].value) * 1e3)
    measured = replace(
        DEVICE, calibrated={"dram": replace(DEVICE.ceilings["dram"], value=dram / 2)}
    )
    slow = model_launch_time(kernel(dram_read_bytes=10**9), measured)
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


def paced(kernel, *paces):
    """The same launch with machine code of those paces."""
    return with_facts(kernel, instructions=InstructionMix((), 1, {}, tuple(paces)))


def test_latency_is_what_a_warp_alone_takes_in_each_wave():
    # outside loops 500 cycles and 1 trip, inside 40 and 2, ten times; 2 waves; all from DRAM
    work = kernel(2640, iterations=10.0, l2_read_bytes=10**6, dram_read_bytes=10**6)
    work = paced(work, Pace(0, 500.0, 1.0, 0.0), Pace(1, 40.0, 2.0, 0.0))
    item = 500 + 10 * 40 + (1 + 10 * 2) * 800
    assert terms(work)["latency"] == pytest.approx(2 * item / CLOCK_HZ * 1e3)
    # from L2 alone, 262; the longest block does twice the mean
    demand = replace(work.demand, dram_read_bytes=0, imbalance=2.0)
    item = 500 + 10 * 40 + (1 + 10 * 2) * 262
    results = terms(replace(work, demand=demand))
    assert results["latency"] == pytest.approx(3 * item / CLOCK_HZ * 1e3)


def test_spilled_words_come_from_l1_l2_or_dram():
    work = with_facts(paced(kernel(132, per_sm=1), Pace(0, 100.0, 0.0, 30.0)), spills=4)
    assert terms(work)["latency"] == pytest.approx((100 + 30 * 41) / CLOCK_HZ * 1e3)
    deep = with_facts(work, spills=512)  # 4 warps with 2 KiB a lane: 256 KiB, and 33 MiB in all
    assert terms(deep)["latency"] == pytest.approx((100 + 30 * 262) / CLOCK_HZ * 1e3)
    deeper = with_facts(work, spills=1024)  # 66 MiB in all, more than L2
    assert terms(deeper)["latency"] == pytest.approx((100 + 30 * 800) / CLOCK_HZ * 1e3)


def test_code_that_waits_for_tma_in_loops_waits_for_each_step():
    work = kernel(132, steps=20.0, accesses=(load("tma"),), stages=3, l2_read_bytes=10**6)
    results = terms(paced(work, Pace(0, 100.0, 0.0, 0.0)))
    assert results["latency"] == pytest.approx((100 + 262 * (1 + 20 / 2)) / CLOCK_HZ * 1e3)


def test_without_machine_code_a_warps_pace_is_estimated():
    # a trip, one for each step, the chain, and two cycles an instruction
    work = kernel(2640, steps=4.0, instructions=50.0, chain_cycles=100.0, l2_read_bytes=10**6)
    latency = terms(work)["latency"]
    assert latency == pytest.approx(2 * (262 * (1 + 4) + 100 + 2 * 50) / CLOCK_HZ * 1e3)


def test_code_is_fetched_once():
    mix = InstructionMix((InstructionCount("fp32", "", 0, 4000, 0, 0, 0),), 0)
    for blocks in (132, 13200):
        results = terms(with_facts(kernel(blocks), instructions=mix))
        assert results["fetch"] == pytest.approx(1.5 * 4000 / CLOCK_HZ * 1e3)
    assert "fetch" not in terms(kernel())


def test_atomics_in_one_sector_wait_for_each_other():
    met = Contention(10**7, 10**6, 1000, busiest_address=10**6, busiest_sector=5 * 10**6)
    atomic = load(kind="atomic", contention=met)
    results = terms(kernel(accesses=(load(), atomic)))
    assert results["atomics"] == pytest.approx(1.6 * 5e6 / CLOCK_HZ * 1e3)
    assert "atomics" not in terms(kernel())


def test_writes_to_l2_take_longer_than_reads():
    reads = DEVICE.ceilings["l2"].value * 0.92
    results = terms(kernel(l2_read_bytes=10**9, l2_write_bytes=10**9, unevenness=1.5))
    assert results["l2"] == pytest.approx(1.5 * (1e9 / reads + 1e9 / (0.52 * reads)) * 1e3)
    measured = {"l2.write": replace(DEVICE.ceilings["l2"], value=2e12)}
    modelled = model_launch_time(kernel(l2_write_bytes=10**9), replace(DEVICE, calibrated=measured))
    assert next(t.time_ms for t in modelled.terms if t.name == "l2") == pytest.approx(0.5)


def test_drams_rate_depends_on_its_mix():
    of = {"read": 4e12, "copy": 2e12, "write": 3e12}
    calibrated = {f"dram.{mix}": replace(DEVICE.ceilings["dram"], value=v) for mix, v in of.items()}
    device = replace(DEVICE, calibrated=calibrated)
    assert dram_rate(1, 0, device) == pytest.approx(4e12)
    assert dram_rate(1, 1, device) == pytest.approx(2e12)
    assert dram_rate(0, 1, device) == pytest.approx(3e12)
    # a quarter written: half-way, in time, from reads to copies
    assert 1 / dram_rate(3, 1, device) == pytest.approx((1 / 4e12 + 1 / 2e12) / 2)
    assert dram_rate(3, 1, DEVICE) == pytest.approx(DEVICE.ceilings["dram"].value * 0.92)


def of_kinds(**counts):
    new_counts = (InstructionCount(kind, "", 0, n, 0, 0, 0) for kind, n in counts.items())
    return with_facts(kernel(blocks=132), instructions=InstructionMix(tuple(new_counts), 0))


def test_the_busiest_of_an_sms_pipes_limits_its_instructions():
    warps, issue = 132 * 4, DEVICE.ceilings["issue"].value / 32
    assert terms(of_kinds(fp32=100))["issue"] == pytest.approx(100 * warps / issue * 1e3)
    # integers take 1.5 cycles of their pipe, a shuffle one of the SM, or four of a scheduler
    assert terms(of_kinds(int32=100))["issue"] == pytest.approx(150 * warps / issue * 1e3)
    shuffles = terms(of_kinds(fp32=100, warp=100))["issue"]
    assert shuffles == pytest.approx(400 * warps / issue * 1e3)


def test_code_in_nested_loops_runs_as_often_as_its_own_loop():
    # 20 rows, each loaded once and then added to itself 50 times
    load_of_row = InstructionCount("global_load", "", 1, 1, 0, 16, 0)
    mix = InstructionMix((load_of_row, InstructionCount("fp32", "", 2, 3, 0, 0, 0)), 2)
    fields = {"iterations": 700.0, "iterations_by_depth": (20.0, 1000.0)}
    nested = with_facts(kernel(132, loop_requests=20 * 132 * 4, **fields), instructions=mix)
    assert unrolling(nested) == 1
    assert executed(nested) == {"global_load": 20, "fp32": 3000}
    # one that the compiler made straight code: the mean of both
    flat = with_facts(nested, instructions=replace(mix, counts=(replace(mix.counts[1], depth=1),)))
    assert executed(flat) == {"fp32": 3 * 700}


def test_copies_that_run_by_themselves_are_asked_for_ahead():
    assert prefetched_steps(kernel(stages=4, accesses=(load("async"),))) == 3
    assert prefetched_steps(kernel(stages=4)) == 1
    assert prefetched_steps(kernel(stages=4, accesses=(load("async"), load("global")))) == 1
    assert prefetched_steps(kernel(stages=4, accesses=(load("staged"),))) == 1
    with_a_scalar = kernel(stages=4, accesses=(load("async"), load("global", 1024)))
    assert prefetched_steps(with_a_scalar) == 3


def test_products_overlap_with_copies_ahead_and_with_a_step_that_waits_in_registers():
    assert overlaps_products(kernel(stages=3, accesses=(load("async"),)))
    assert not overlaps_products(kernel(stages=2, accesses=(load("async"),)))  # one buffer
    assert overlaps_products(kernel(stages=2, accesses=(load("staged"),)))
    assert not overlaps_products(kernel(stages=2, accesses=(load("staged"), load("global"))))


def unrolled(**fields):
    """A loop of 64 iterations whose one load stands five times in the code: 4 at once, and 1."""
    mix = InstructionMix((InstructionCount("global_load", "", 1, 5, 0, 16, 0),), 2)
    warps = 132 * 4
    fields = {"iterations": 64.0, "steps": 64.0, "loop_requests": 64 * warps} | fields
    return with_facts(kernel(blocks=132, **fields), instructions=mix)


def test_an_unrolled_loop_asks_for_several_steps_together():
    assert unrolling(unrolled()) == 5
    assert prefetched_steps(unrolled()) == 4
    assert prefetched_steps(unrolled(steps=2.0)) == 2
    assert prefetched_steps(unrolled(operations={"tensor.fp16": 10})) == 1
    # of the 5 that stand there, each iteration runs one; an SM takes one load a clock
    assert terms(unrolled())["issue"] == pytest.approx(
        4 * 64 * 132 * 4 * 32 / DEVICE.ceilings["issue"].value * 1e3
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
        modelled = model_launch_time(
            with_facts(work, launch=replace(work.launch, num_warps=warps)), DEVICE
        )
        items = {term.name: term.time_ms for term in modelled.terms}
        assert items["dispatch"] == pytest.approx(2**20 * 1.19 / CLOCK_HZ * 1e3)
        assert modelled.limiter == "dispatch"
        assert modelled.time_ms == pytest.approx(LAUNCH_MS + items["dispatch"])
    # an H100 took 631.7 us for so many of stencil3d/seven_loads, which move little
    assert modelled.time_ms == pytest.approx(0.6317, rel=0.02)


def test_few_blocks_that_loop_begin_at_once():
    results = terms(kernel(blocks=SMS, steps=1000.0))
    assert results["dispatch"] == pytest.approx(132 * 1.19 / CLOCK_HZ * 1e3)
    assert results["dispatch"] < 1e-3 * results["latency"]


def expected(work, exposed):
    """The time of a launch without machine code, if that part of a resource shows."""
    items = {term.name: term.time_ms for term in model_launch_time(work, DEVICE).terms}
    memory = max(items.get(name, 0.0) for name in ("dram", "l2", "l1"))
    scalar = max(items.get(name, 0.0) for name in ("fp32", "sfu", "issue", "shared"))
    parts = [memory, scalar, items.get("tensor.fp16", 0.0)]
    busy = max(parts) + (sum(parts) - max(parts)) * exposed
    return LAUNCH_MS + math.sqrt(busy**2 + items["latency"] ** 2)


def test_what_does_not_hide_is_added():
    # 4 blocks of 4 warps on an SM: 4 warps on each of its schedulers
    work = kernel(per_sm=4, dram_read_bytes=10**9, l2_read_bytes=10**9, operations={"fp32": 10**12})
    assert model_launch_time(work, DEVICE).limiter == "fp32"
    assert model_launch_time(work, DEVICE).time_ms == pytest.approx(expected(work, 1 / (1 + 4)))


def test_no_more_blocks_hide_work_than_there_are():
    work = kernel(blocks=264, per_sm=10, dram_read_bytes=10**9, operations={"fp32": 10**12})
    assert resident(work, DEVICE) == 2
    assert model_launch_time(work, DEVICE).time_ms == pytest.approx(expected(work, 1 / (1 + 2)))


def test_products_of_plain_loads_are_hidden_by_other_blocks_alone():
    fields = {"dram_read_bytes": 10**9, "operations": {"tensor.fp16": 10**12, "sfu": 10**9}}
    work = kernel(per_sm=2, **fields)
    assert model_launch_time(work, DEVICE).limiter == "tensor.fp16"
    assert model_launch_time(work, DEVICE).time_ms == pytest.approx(expected(work, 1 / 2))


def test_streams_of_copies_and_tensor_cores_run_side_by_side():
    fields = {"dram_read_bytes": 10**9, "operations": {"tensor.fp16": 10**12}}
    modelled = model_launch_time(
        kernel(per_sm=2, stages=3, accesses=(load("async"),), **fields), DEVICE
    )
    items = {term.name: term.time_ms for term in modelled.terms}
    busy = max(items["dram"], items["tensor.fp16"])
    assert modelled.time_ms == pytest.approx(LAUNCH_MS + math.hypot(busy, items["latency"]))


def test_few_warps_that_wait_take_their_own_time():
    work = kernel(blocks=132, per_sm=1, steps=1e4, l2_read_bytes=10**6)
    modelled = model_launch_time(work, DEVICE)
    assert modelled.limiter == "latency"
    assert modelled.time_ms == pytest.approx(LAUNCH_MS + 262 * (1 + 1e4) / CLOCK_HZ * 1e3, rel=1e-3)


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
    assert spill_traffic(work, DEVICE) == (moved, "l1")
    assert terms(work)["l1"] == pytest.approx(moved / 128 / SMS / CLOCK_HZ * 1e3)
    # 16 blocks of 4 warps with a KiB a lane: 2 MiB would be on an SM; 132 blocks have 16 MiB
    many = replace(work, occupancy=replace(work.occupancy, blocks_per_sm=16))
    few = with_facts(many, spills=256)
    assert spill_traffic(few, DEVICE) == (moved, "l2")
    deep = with_facts(many, spills=1024)  # 66 MiB, and L2 has 50
    assert spill_traffic(deep, DEVICE) == (moved, "dram")
    l2, dram = (DEVICE.ceilings[name].value * 0.92 for name in ("l2", "dram"))
    assert terms(few)["l2"] == terms(deep)["l2"] == pytest.approx(moved / l2 * 1e3)
    more = terms(deep)["dram"] - terms(few)["dram"]
    assert more == pytest.approx(moved / dram * 1e3)


def test_a_launch_that_was_not_followed_cannot_be_modelled():
    with pytest.raises(ValueError, match="kernel has not been analysed"):
        model_launch_time(replace(kernel(), demand=None), DEVICE)


def test_spilled_registers_in_dram_are_extra_traffic_not_a_rate_that_dram_sustains():
    counts = (InstructionCount("local_load", "", 1, 10, 0, 4, 0),)
    work = with_facts(
        kernel(blocks=132, per_sm=16, iterations=1000.0, dram_read_bytes=10**8),
        spills=1024,  # 66 MiB in all, and L2 has 50
        instructions=InstructionMix(counts, 1),
    )
    work = replace(work, model=model_launch_time(work, DEVICE))
    needed = Work({}, {}, 10**8, 0, 0, 0)
    gap = decompose_gap(bound(needed, DEVICE), [work], DEVICE)
    factors = {factor.name: factor for factor in gap.factors}
    assert factors["sustained rates"].factor == pytest.approx(1 / 0.92)
    # 4 warps of 132 blocks; 32 lanes; 10 words in each of 1000 iterations
    spilled = 132 * 4 * 32 * 10 * 4 * 1000
    assert factors["extra traffic"].factor == pytest.approx((10**8 + spilled) / 10**8)
    assert factors["extra traffic"].cause.name == "spills"
