"""The bound from hand-made work on the H100 SXM: ceilings as the whitepaper's rates give them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from solkit.core import OpWork, Tolerance, Work
from solkit.errors import InputError
from solkit.roofline import devices
from solkit.roofline.bound import at_observed_clock, bound

H100 = devices.find("h100-sxm")
DRAM = 2619e6 * 2 * 5120 / 8  # bytes per second
BF16 = 132 * 4096 * 1980e6  # FLOP per second
TF32 = BF16 / 2
FP32 = 132 * 128 * 2 * 1980e6
MIB = 1 << 20
LOOSE, TIGHT = Tolerance(1e-2, 1e-2), Tolerance(1e-4, 1e-4)


def make(read=0, write=0, hard=None, **operations):
    named = {k.replace("contraction_", "contraction."): n for k, n in operations.items()}
    return Work(named, hard or {}, read, write, read, write)


def test_memory_bound_time_is_bytes_over_bandwidth():
    result = bound(make(read=3 * MIB, write=MIB, fp32=10), H100)
    assert result.limiter == "dram"
    assert result.time_ms == pytest.approx(1e3 * 4 * MIB / DRAM)
    assert result.resources[0].amount == 4 * MIB


def test_a_shape_that_the_gpu_cannot_hold_is_said_to_be():
    assert not any("cannot run" in a for a in bound(make(read=80 * 1024 * MIB), H100).assumptions)
    (selected_assumption,) = [
        a for a in bound(make(read=2**40), H100).assumptions if "cannot run" in a
    ]
    assert selected_assumption.startswith(
        "Inputs and results take 1,024 GiB, more than the 80 GiB of NVIDIA H100"
    )


def test_compute_bound_time_is_flops_over_rate():
    result = bound(make(read=MIB, contraction_bf16=10**12), H100)
    assert result.limiter == "tensor.bf16"
    assert result.time_ms == pytest.approx(1e3 * 10**12 / BF16)


@pytest.mark.parametrize(
    ("precision", "tolerance", "pipe", "rate"),
    [
        ("tolerance", LOOSE, "tensor.bf16", BF16),
        ("tolerance", Tolerance(1e-3, 0), "tensor.fp16", BF16),  # 11 bits, as tf32, at its rate
        ("tolerance", TIGHT, "tensor.fp16", BF16 / 3),  # 357 TFLOP/s: above fp32's 67
        ("tolerance", None, "tensor.fp16", BF16 / 3),
        ("declared", LOOSE, "fp32", FP32),
        ("tf32", TIGHT, "tensor.tf32", TF32),
        ("bf16", TIGHT, "tensor.bf16", BF16),
        ("fp8", TIGHT, "tensor.fp8", 2 * BF16),
    ],
)
def test_precision_chooses_the_pipe_of_an_fp32_contraction(precision, tolerance, pipe, rate):
    result = bound(make(contraction_fp32=10**12), H100, precision=precision, tolerance=tolerance)
    assert result.limiter == pipe
    assert result.time_ms == pytest.approx(1e3 * 10**12 / rate)
    assert result.flops_by_pipe == {pipe: 10**12}  # passes lower the ceiling, not the count


def test_three_passes_are_not_taken_where_fp32_is_faster():
    # RTX 4090: tf32 at 82.6 TFLOP/s in three passes loses to fp32 at 82.6
    result = bound(make(contraction_fp32=10**12), devices.find("rtx-4090"), tolerance=TIGHT)
    assert result.limiter == "fp32"


@pytest.mark.parametrize(
    ("gpu", "dtype", "pipe", "flop_per_clock"),
    [
        ("h100-sxm", "fp16", "fp16", 512),  # twice fp32's 256
        ("h100-sxm", "bf16", "bf16", 512),
        ("a100", "fp16", "fp16", 512),  # four times fp32's 128
        ("a100", "bf16", "bf16", 256),
        ("v100", "bf16", "fp32", 128),  # no packed bf16
    ],
)
def test_elementwise_halves_are_packed_where_the_gpu_can(gpu, dtype, pipe, flop_per_clock):
    device = devices.find(gpu)
    result = bound(make(**{dtype: 10**12}), device)
    assert result.flops_by_pipe == {pipe: 10**12}
    rate = flop_per_clock * device.sm_count * device.clock_mhz * 1e6
    assert result.time_ms == pytest.approx(1e3 * 10**12 / rate)


def test_a_warm_working_set_is_bounded_by_the_first_cache_that_holds_it():
    mi300x = devices.find("mi300x")

    def times(mib):
        return bound(make(read=mib * MIB), mi300x, protocol="warm")

    assert times(16).resources[0].name == "l2"
    assert times(200).resources[0].name == "last_level"
    assert times(200).time_ms == pytest.approx(1e3 * 200 * MIB / 17.2e12)
    assert times(300).resources[0].name == "dram"
    assert times(300).at.hard_ms == pytest.approx(1e3 * (300 - 256) * MIB / (2 * 2600e6 * 1024))


def test_an_unproven_l2_rate_makes_nothing_impossible():
    work = make(read=16 * MIB)
    proven, unproven = devices.find("h100"), devices.find("b200")
    assert bound(work, proven, protocol="warm").at.hard_ms > 0
    assert bound(work, unproven, protocol="warm").at.hard_ms == 0


def test_the_calibrated_dram_rate_follows_the_mix_of_reads_and_writes():
    rates = {"read": 4.0e12, "copy": 3.0e12, "write": 3.5e12}
    calibrated = {
        f"dram.{mix}": replace(H100.ceilings["dram"], value=rate) for mix, rate in rates.items()
    }
    calibrated["dram"] = calibrated["dram.read"]
    device = replace(H100, calibrated=calibrated)

    def rate(read, write):
        result = bound(make(read=read * MIB, write=write * MIB), device).at.calibrated_ms
        return (read + write) * MIB / (result / 1e3)

    assert rate(64, 0) == pytest.approx(4.0e12)
    assert rate(32, 32) == pytest.approx(3.0e12)
    assert rate(0, 64) == pytest.approx(3.5e12)
    assert rate(48, 16) == pytest.approx(2 / (1 / 4.0e12 + 1 / 3.0e12))  # half way in time


def test_a_dtype_without_a_pipe_runs_on_a_wider_one():
    a100 = devices.find("a100")
    assert bound(make(contraction_fp8=10**12), a100).limiter == "tensor.fp16"
    assert bound(make(contraction_bf16=10**12), devices.find("v100")).limiter == "fp32"


def test_contractions_of_two_dtypes_share_the_tensor_cores():
    result = bound(make(contraction_bf16=10**12, contraction_fp8=10**12), H100)
    assert result.limiter == "tensor"
    assert result.time_ms == pytest.approx(1e3 * (10**12 / BF16 + 10**12 / (2 * BF16)))
    assert result.time_ms == max(r.time_ms for r in result.resources)


def test_scalar_work_outside_a_contraction_adds_to_the_scalar_pipe():
    result = bound(make(fp32=5, contraction_fp32=10), H100, precision="declared")
    assert result.flops_by_pipe == {"fp32": 15}


def test_unknown_precision_names_the_choices():
    with pytest.raises(InputError, match=r"'fp7'.*tolerance, declared, tf32, bf16, fp8"):
        bound(make(read=1), H100, precision="fp7")


# --------------------------------------------------------------------- resources and where from


def test_a_hundred_chained_sines_are_bound_by_special_functions():
    elements = 1 << 24
    result = bound(make(read=4 * elements, write=4 * elements, sfu=100 * elements), H100)
    assert result.limiter == "sfu"
    assert result.time_ms == pytest.approx(1e3 * 100 * elements / (132 * 16 * 1980e6))


def test_pipes_that_share_issue_slots_take_turns():
    # 2 operations an instruction, 128 threads' instructions a clock and SM
    work = make(fp32=4 * 10**12, int32=10**12)
    for key in ("h100", "rtx-4090", "rtx-5090"):
        device = devices.find(key)
        result = bound(work, device)
        slots = 128 * device.sm_count * device.clock_mhz * 1e6
        assert result.limiter == "issue"
        assert result.time_ms == pytest.approx(1e3 * 2.5e12 / slots)
    assert bound(make(fp32=10), H100).limiter == "fp32"  # alone, the pipe itself says as much
    assert bound(work, devices.find("b200")).limiter == "fp32"  # packed fp32 instructions


def test_resources_name_the_ops_they_come_from():
    ops = (
        OpWork("aten.mm", {"contraction.bf16": 300}, 0, 0, read_bytes=60, line="m.py:3"),
        OpWork("aten.exp", {"sfu": 7, "fp32": 2}, position=1, line="m.py:4"),
        OpWork("aten.mm", {"contraction.bf16": 100}, 0, 2, write_bytes=20, line="m.py:3"),
        OpWork("aten.mm", {"contraction.bf16": 600}, 0, 3, write_bytes=40, line="m.py:5"),
    )
    work = make(read=60, write=60, contraction_bf16=1000, sfu=7, fp32=2)
    work = replace(work, ops=ops)
    results = {r.name: r for r in bound(work, H100).resources}
    pairs_by_name = {
        name: [(c.name, c.line, c.amount, c.share, c.count) for c in r.contributors]
        for name, r in results.items()
    }
    assert pairs_by_name["tensor.bf16"] == [
        ("aten.mm", "m.py:5", 600, 0.6, 1),
        ("aten.mm", "m.py:3", 400, 0.4, 2),
    ]
    assert pairs_by_name["dram"] == [
        ("aten.mm", "m.py:3", 80, pytest.approx(2 / 3), 2),
        ("aten.mm", "m.py:5", 40, pytest.approx(1 / 3), 1),
    ]
    assert pairs_by_name["sfu"] == [("aten.exp", "m.py:4", 7, 1.0, 1)]


def test_the_shared_tensor_cores_name_ops_of_every_dtype():
    ops = (OpWork("aten.mm", {"contraction.bf16": 3}), OpWork("aten.mm", {"contraction.fp8": 1}))
    work = replace(make(contraction_bf16=3, contraction_fp8=1), ops=ops)
    shared = next(r for r in bound(work, H100).resources if r.name == "tensor")
    assert [(c.amount, c.share) for c in shared.contributors] == [(4, 1.0)]


# ------------------------------------------------------------------------------ warm protocol


def test_a_warm_working_set_within_l2_is_charged_to_l2():
    result = bound(make(read=20 * MIB, write=10 * MIB), H100, protocol="warm")
    assert [r.name for r in result.resources] == ["l2"]
    assert result.time_ms == pytest.approx(1e3 * 30 * MIB / (64 * 132 * 1980e6))
    assert result.at.hard_ms == pytest.approx(result.time_ms)
    assert "start in L2" in result.assumptions[0]
    assert result.flops_by_pipe == {}


def test_a_warm_working_set_beyond_l2_crosses_dram():
    work = make(read=80 * MIB, write=60 * MIB)
    result = bound(work, H100, protocol="warm")
    assert result.limiter == "dram"
    assert result.time_ms == bound(work, H100).time_ms
    # what is left in L2 from the call before need not be fetched: 80 - 50 and 60 - 50 MiB
    assert result.at.hard_ms == pytest.approx(1e3 * (30 + 10) * MIB / DRAM)


def test_an_unknown_protocol_names_the_choices():
    with pytest.raises(InputError, match=r"'hot'.*cold, warm"):
        bound(make(read=1), H100, protocol="hot")


def test_the_launch_floor_stands_apart():
    result = bound(make(read=1024), H100)
    assert result.at.launch_floor_ms == pytest.approx(1.2e-3)
    assert result.at.roofline_ms < result.at.launch_floor_ms
    assert bound(make(read=1024), devices.find("a100")).at.launch_floor_ms is None


# ------------------------------------------------------------------------------ hard bound


def test_output_that_fits_in_l2_need_not_reach_dram():
    result = bound(make(write=32 * MIB), H100)
    sm_to_l2 = 64 * 132 * 1980e6
    assert result.at.roofline_ms == pytest.approx(1e3 * 32 * MIB / DRAM)
    assert result.at.hard_ms == pytest.approx(1e3 * 32 * MIB / sm_to_l2)


def test_only_output_beyond_l2_is_sure_to_reach_dram():
    result = bound(make(read=100 * MIB, write=80 * MIB), H100)
    assert result.at.hard_ms == pytest.approx(1e3 * (100 + 80 - 50) * MIB / DRAM)


def test_a_measured_fill_of_32_mib_is_legal():
    # design page: 3.71 TB/s after a clean flush on an H100, above its DRAM's 3.35
    seen_ms = 1e3 * 32 * MIB / 3.71e12
    result = bound(make(write=32 * MIB), H100)
    assert result.at.hard_ms < seen_ms < result.time_ms


def test_hard_contractions_run_at_the_fastest_rate_that_could_do():
    work = make(hard={"contraction.fp32": 10**12}, contraction_fp32=10**12)
    assert bound(work, H100, tolerance=TIGHT).at.hard_ms == pytest.approx(1e3 * 10**12 / BF16)
    coarse = Tolerance(0.1, 0.1)  # looser than fp8's rounding error
    hard = bound(work, H100, tolerance=coarse).at.hard_ms
    assert hard == pytest.approx(1e3 * 10**12 / (2 * BF16))


def test_special_functions_are_never_hard():
    assert bound(make(sfu=10**12), H100).at.hard_ms == 0
    assert bound(make(sfu=10**12), H100).limiter == "sfu"


@pytest.mark.parametrize("device", devices.catalogue(), ids=lambda d: d.key)
def test_hard_is_never_above_the_roofline(device):
    work = make(
        read=MIB,
        write=200 * MIB,
        hard={"contraction.fp16": 10**11},
        contraction_fp16=10**11,
        sfu=10**9,
        int32=10**9,
    )
    result = bound(work, device)
    assert 0 < result.at.hard_ms <= result.at.roofline_ms == result.time_ms


# ---------------------------------------------------------------------------- other clocks


def test_datasheet_time_uses_the_vendors_rate():
    result = bound(make(contraction_bf16=10**12), H100)
    assert result.at.datasheet_ms == pytest.approx(1e3 * 10**12 / 989.4e12, rel=1e-3)


def test_observed_clock_slows_the_sms_and_not_the_dram():
    compute = bound(make(contraction_bf16=10**12), H100)
    assert at_observed_clock(compute, H100, 990).at.observed_clock_ms == pytest.approx(
        2 * compute.time_ms
    )
    memory = bound(make(read=MIB), H100)
    assert at_observed_clock(memory, H100, 990).at.observed_clock_ms == memory.time_ms
    both = bound(make(contraction_bf16=10**12, contraction_fp8=10**12), H100)
    assert at_observed_clock(both, H100, 990).at.observed_clock_ms == pytest.approx(
        2 * both.time_ms
    )


def test_without_a_calibration_there_is_no_calibrated_time():
    assert bound(make(read=1), H100).at.calibrated_ms is None
