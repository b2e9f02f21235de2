"""What the kernel model takes from an architecture."""

import pytest

from solkit.core import (
    Facts,
    InstructionCount,
    InstructionMix,
    Launch,
    Requests,
    Reuse,
    SharedAccess,
    Stream,
)
from solkit.roofline import devices
from solkit.roofline.kernel.evaluate import described
from solkit.roofline.kernel.machines import unvalidated
from solkit.roofline.kernel.model import dram_rate, sustained_rate

MI300X, MI325X, MI355X, H100 = map(devices.find, ("mi300x", "mi325x", "mi355x", "h100"))
MI308X = devices.find("mi308x")
B200 = devices.find("b200")
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
        1e3 * 200 * MIB / 11.9e12, rel=0.01
    )
    assert term(facts, "last_level", H100) is None
    assert described(facts, H100).demand.dram_read_bytes == pytest.approx(200 * MIB, rel=0.01)


def test_an_l2_of_eight_dies_holds_what_one_die_can_hold():
    reads = Stream(100 * MIB, (16 * MIB,), (100 * MIB,))  # within 32 MiB, beyond 4
    taken = term(launch(reuse=Reuse((reads,))), "last_level")
    assert taken.time_ms == pytest.approx(1e3 * 200 * MIB / 11.9e12, rel=0.01)


def test_half_of_the_lds_wavefronts_of_loads_count_where_a_clock_takes_two():
    shared = tuple(SharedAccess(kind, "k.py:1", 1000, 76_800, 76_800) for kind in ("load", "store"))
    narrow, wide = (term(launch(shared=shared), "shared", gpu) for gpu in (MI300X, MI355X))
    assert narrow.time_ms == pytest.approx(2 * 76_800 / 304 / 2100e3)
    assert wide.time_ms == pytest.approx(1.5 * 76_800 / 256 / 2400e3)


def test_schedulers_issue_on_a_gpu_without_a_ceiling_of_instructions():
    assert "issue" not in B200.ceilings
    # 4 blocks of 4 warps on each of 148 SMs, 1,000 instructions a warp, 4 of them a clock
    taken = term(launch(counts(fp32=1000), blocks=148 * 4), "issue", B200)
    assert taken.time_ms == pytest.approx(4 * 4 * 1000 / 4 / 1965e3)


@pytest.mark.parametrize(("written", "tera"), [(0.0, 7.26), (0.5, 0.829 * 7.672), (1.0, 7.235)])
def test_a_mix_of_reads_and_writes_has_its_published_rate(written, tera):
    moved = 1 << 30
    assert dram_rate((1 - written) * moved, written * moved, B200) == pytest.approx(
        1e12 * tera, rel=2e-3
    )


@pytest.mark.parametrize(
    ("device", "pipe", "tera"),
    [
        # the sources are in solkit.roofline.kernel.machines
        (B200, "tensor.fp16", 1610),
        (B200, "l2", 14.2),
        (MI300X, "tensor.fp16", 654),
        (MI300X, "tensor.bf16", 708),
        (MI300X, "tensor.fp8", 1273),
        (MI325X, "tensor.fp16", 794),
        (MI325X, "tensor.bf16", 843),
        (MI325X, "tensor.fp8", 1519),
        (MI308X, "tensor.bf16", 186.6),
        (MI308X, "tensor.fp8", 458),
        (MI308X, "dram", 3.97),
        (MI355X, "tensor.bf16", 1597),
        (MI355X, "tensor.fp8", 2997),
        (MI355X, "tensor.fp4", 5806),
        (MI355X, "dram", 6.48),
    ],
)
def test_products_and_streams_sustain_what_others_published(device, pipe, tera):
    assert sustained_rate(pipe, device) == pytest.approx(1e12 * tera, rel=0.01)


def test_the_model_says_where_nothing_was_timed():
    assert unvalidated(H100) == ""
    assert "AMD Instinct MI355X" in unvalidated(MI355X)
    assert "gfx950" in unvalidated(MI355X)


@pytest.mark.parametrize(
    ("device", "pipe", "tera"),
    [
        # SemiAnalysis, "MI300X vs H100 vs H200 Benchmark Part 1: Training" (December 2024), as
        # quoted by two public repositories; the article itself was not at hand
        (MI300X, "tensor.bf16", 620),
        (MI300X, "tensor.fp8", 990),
        # AMD, "Measuring Max-Achievable FLOPs - Part 2" (ROCm blogs, 28 February 2025), table 1
        (MI300X, "tensor.fp16", 654),
        (MI300X, "tensor.bf16", 708),
        (MI300X, "tensor.fp8", 1273),
        (MI325X, "tensor.fp16", 794),
        (MI325X, "tensor.bf16", 843),
        (MI325X, "tensor.fp8", 1519),
        # Chips and Cheese, "Testing AMD's Giant MI300X" (June 2024), as quoted by public digests
        (MI300X, "last_level", 11.9),
    ],
)
def test_published_rates_lie_below_the_ceilings(device, pipe, tera):
    assert 0.3 < tera * 1e12 / device.ceilings[pipe].value < 1


@pytest.mark.parametrize(
    ("pipe", "per_clock"),
    [
        # https://github.com/SemiAnalysisAI/microbench-blackwell, tput_results_max.csv: an SM's
        # tcgen05.mma with tiles of 128 x 256, both factors in shared memory
        ("tensor.bf16", 8152.9),
        ("tensor.fp8", 16_344.5),
        ("tensor.int8", 16_344.7),
        ("tensor.fp4", 32_721.7),
    ],
)
def test_matrix_instructions_of_blackwell_reach_the_rate_of_the_catalogue(pipe, per_clock):
    clocks = B200.sm_count * B200.clock_mhz * 1e6
    assert 0.99 < per_clock * clocks / B200.ceilings[pipe].value < 1
