"""The bound from hand-made work on the H100 SXM: ceilings as the whitepaper's rates give them."""

from __future__ import annotations

import pytest

from solkit.core import Tolerance, Work
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
    found = bound(make(read=3 * MIB, write=MIB, fp32=10), H100)
    assert found.limiter == "dram"
    assert found.time_ms == pytest.approx(1e3 * 4 * MIB / DRAM)
    assert found.resources[0].amount == 4 * MIB


def test_compute_bound_time_is_flops_over_rate():
    found = bound(make(read=MIB, contraction_bf16=10**12), H100)
    assert found.limiter == "tensor.bf16"
    assert found.time_ms == pytest.approx(1e3 * 10**12 / BF16)


@pytest.mark.parametrize(
    ("precision", "tolerance", "pipe", "rate"),
    [
        ("tolerance", LOOSE, "tensor.tf32", TF32),
        ("tolerance", Tolerance(1e-3, 0), "tensor.tf32", TF32),
        ("tolerance", TIGHT, "tensor.tf32", TF32 / 3),  # 178 TFLOP/s: still above fp32's 67
        ("tolerance", None, "tensor.tf32", TF32 / 3),
        ("declared", LOOSE, "fp32", FP32),
        ("tf32", TIGHT, "tensor.tf32", TF32),
        ("bf16", TIGHT, "tensor.bf16", BF16),
        ("fp8", TIGHT, "tensor.fp8", 2 * BF16),
    ],
)
def test_precision_chooses_the_pipe_of_an_fp32_contraction(precision, tolerance, pipe, rate):
    found = bound(make(contraction_fp32=10**12), H100, precision=precision, tolerance=tolerance)
    assert found.limiter == pipe
    assert found.time_ms == pytest.approx(1e3 * 10**12 / rate)
    assert found.flops_by_pipe == {pipe: 10**12}  # passes lower the ceiling, not the count


def test_three_passes_are_not_taken_where_fp32_is_faster():
    # RTX 4090: tf32 at 82.6 TFLOP/s in three passes loses to fp32 at 82.6
    found = bound(make(contraction_fp32=10**12), devices.find("rtx-4090"), tolerance=TIGHT)
    assert found.limiter == "fp32"


def test_a_dtype_without_a_pipe_runs_on_a_wider_one():
    a100 = devices.find("a100")
    assert bound(make(contraction_fp8=10**12), a100).limiter == "tensor.fp16"
    assert bound(make(contraction_bf16=10**12), devices.find("v100")).limiter == "fp32"


def test_contractions_of_two_dtypes_share_the_tensor_cores():
    found = bound(make(contraction_bf16=10**12, contraction_fp8=10**12), H100)
    assert found.limiter == "tensor"
    assert found.time_ms == pytest.approx(1e3 * (10**12 / BF16 + 10**12 / (2 * BF16)))
    assert found.time_ms == max(r.time_ms for r in found.resources)


def test_scalar_work_outside_a_contraction_adds_to_the_scalar_pipe():
    found = bound(make(fp32=5, contraction_fp32=10), H100, precision="declared")
    assert found.flops_by_pipe == {"fp32": 15}


def test_unknown_precision_names_the_choices():
    with pytest.raises(InputError, match=r"'fp7'.*tolerance, declared, tf32, bf16, fp8"):
        bound(make(read=1), H100, precision="fp7")


# ------------------------------------------------------------------------------ hard bound


def test_output_that_fits_in_l2_need_not_reach_dram():
    found = bound(make(write=32 * MIB), H100)
    sm_to_l2 = 64 * 132 * 1980e6
    assert found.at.roofline_ms == pytest.approx(1e3 * 32 * MIB / DRAM)
    assert found.at.hard_ms == pytest.approx(1e3 * 32 * MIB / sm_to_l2)


def test_only_output_beyond_l2_is_sure_to_reach_dram():
    found = bound(make(read=100 * MIB, write=80 * MIB), H100)
    assert found.at.hard_ms == pytest.approx(1e3 * (100 + 80 - 50) * MIB / DRAM)


def test_a_measured_fill_of_32_mib_is_legal():
    # design page: 3.71 TB/s after a clean flush on an H100, above its DRAM's 3.35
    seen_ms = 1e3 * 32 * MIB / 3.71e12
    found = bound(make(write=32 * MIB), H100)
    assert found.at.hard_ms < seen_ms < found.time_ms


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
    found = bound(work, device)
    assert 0 < found.at.hard_ms <= found.at.roofline_ms == found.time_ms


# ---------------------------------------------------------------------------- other clocks


def test_datasheet_time_uses_the_vendors_rate():
    found = bound(make(contraction_bf16=10**12), H100)
    assert found.at.datasheet_ms == pytest.approx(1e3 * 10**12 / 989.4e12, rel=1e-3)


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
