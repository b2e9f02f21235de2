"""What the kernel model takes from an architecture."""

import pytest

from solkit.core import Facts, InstructionCount, InstructionMix, Launch, Requests, Reuse, Stream
from solkit.roofline import devices
from solkit.roofline.kernel.evaluate import described
from solkit.roofline.kernel.machines import unvalidated

MI300X, MI355X, H100 = map(devices.find, ("mi300x", "mi355x", "h100"))
MIB = 1 << 20


def launch(mix=None, reuse=None, blocks=304 * 8, **figures):
    requests = Requests(
        accesses=(), operations={}, l1_wavefronts=0, l2_read_bytes=0, l2_write_bytes=0,
        reuse=reuse or Reuse(), **figures,
    )  # fmt: skip
    return Facts(
        Launch("k", (blocks, 1, 1), 4, 2), registers=64, spills=0, shared_bytes=0,
        instructions=mix, requests=requests,
    )  # fmt: skip


def term(facts, name, device=MI300X):
    model = described(facts, device).model
    return next((term for term in model.terms if term.name == name), None)


def counts(**kinds):
    rows = (InstructionCount(kind, "", 0, count, 0, 0, 0) for kind, count in kinds.items())
    return InstructionMix(tuple(rows), 0, {}, ())


def test_a_compute_unit_takes_one_vector_instruction_a_clock():
    # 8 blocks of 4 waves on each CU, 1,000 instructions a wave: 32,000 clocks
    taken = term(launch(counts(int32=600, fp32=400)), "issue")
    assert taken.time_ms == pytest.approx(32_000 / 2100e3)
    # transcendentals take four times as long; scalar instructions and branches are no vector ones
    slow = term(launch(counts(sfu=250, uniform=5000, branch=100)), "issue")
    assert slow.time_ms == pytest.approx(32_000 / 2100e3)


@pytest.mark.parametrize("device", [MI300X, MI355X])
def test_what_the_last_level_holds_is_not_read_from_dram_again(device):
    # 100 MiB read twice: beyond any L2, within the 256 MiB behind it
    reads = Stream(100 * MIB, (100 * MIB,), (100 * MIB,))
    facts = launch(reuse=Reuse((reads,)))
    demand = described(facts, device).demand
    assert demand.dram_read_bytes == pytest.approx(100 * MIB, rel=0.01)
    assert term(facts, "last_level", device).time_ms == pytest.approx(
        1e3 * 200 * MIB / (0.92 * 17.2e12), rel=0.01
    )
    assert term(facts, "last_level", H100) is None
    assert described(facts, H100).demand.dram_read_bytes == pytest.approx(200 * MIB, rel=0.01)


def test_an_l2_of_eight_dies_holds_what_one_die_can_hold():
    reads = Stream(100 * MIB, (16 * MIB,), (100 * MIB,))  # within 32 MiB, beyond 4
    taken = term(launch(reuse=Reuse((reads,))), "last_level")
    assert taken.time_ms == pytest.approx(1e3 * 200 * MIB / (0.92 * 17.2e12), rel=0.01)


def test_the_model_says_where_nothing_was_timed():
    assert unvalidated(H100) == ""
    assert "AMD Instinct MI355X" in unvalidated(MI355X)
    assert "gfx950" in unvalidated(MI355X)


@pytest.mark.parametrize(
    ("device", "pipe", "tera"),
    [
        # quoted from memory: the reports were not at hand when this was written
        # SemiAnalysis, "MI300X vs H100 vs H200 Benchmark Part 1: Training" (December 2024)
        (MI300X, "tensor.bf16", 620),
        (MI300X, "tensor.fp8", 990),
        # AMD, "Understanding Peak, Max-Achievable & Delivered FLOPs" (ROCm blog, 2025)
        (MI300X, "tensor.fp16", 654),
        (MI300X, "tensor.bf16", 708),
        (MI300X, "tensor.fp8", 1273),
        # Chips and Cheese, "Testing AMD's Giant MI300X" (2024): what the last level gave
        (MI300X, "last_level", 11.9),
    ],
)
def test_published_rates_lie_below_the_ceilings(device, pipe, tera):
    assert 0.3 < tera * 1e12 / device.ceilings[pipe].value < 1
