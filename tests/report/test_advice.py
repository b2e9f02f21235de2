"""Each sentence stands on evidence: there with it, gone without."""

from dataclasses import replace

import pytest

from solkit.core import Analysis, AnalysisStatus, Score, Verdict
from solkit.report.advice import advise
from solkit.roofline import devices

MEMORY_BOUND = {"limiter": "dram"}


@pytest.fixture
def says(make):
    def said(result):
        return " | ".join(advise(result, make.device()))

    return said


def seen(*kernels):
    return Analysis(AnalysisStatus.COMPLETE, kernels)


def test_not_measured(make, says):
    assert "Nothing was measured" in says(make.result())
    assert "Nothing was measured" not in says(make.measured())


def test_reference_alone(make, says):
    said = says(make.reference_alone().results[0])
    assert said.startswith("The file holds only a reference")
    assert "Nothing was measured" not in said


def test_unmodelled_ops(make, says):
    assert says(make.measured(work=make.work(unmodelled=("aten.sort",)))).startswith("aten.sort: ")
    assert "counted as zero cost" not in says(make.measured())


def test_spills(make, says):
    said = says(make.measured(analysis=seen(make.kernel(spills=24))))
    assert "matmul_kernel spills 24 words" in said
    assert "spills" not in says(make.measured(analysis=seen(make.kernel(spills=0))))


@pytest.mark.parametrize(
    ("limiter", "reason"),
    [
        ("registers", "limited by its 168 registers per thread"),
        ("shared", "limited by its 96 KiB of shared memory per block"),
        ("blocks", "limited by blocks, at 8 warps per block"),
        ("something new", "limited by something new"),
    ],
)
def test_low_occupancy_of_a_memory_bound_kernel(make, says, limiter, reason):
    low = seen(make.kernel(limiter=limiter, fraction=0.25))
    assert f"25 % of an SM's warps, {reason}" in says(
        make.measured(analysis=low, bound=make.bound(**MEMORY_BOUND))
    )
    assert "warps" not in says(make.measured(analysis=low))  # tensor cores need few warps
    enough = seen(make.kernel(limiter=limiter, fraction=0.75))
    assert "warps" not in says(make.measured(analysis=enough, bound=make.bound(**MEMORY_BOUND)))


def test_tail_wave(make, says):
    said = says(make.measured(analysis=seen(make.kernel(waves=1.06, tail_efficiency=0.53))))
    assert "1.06 waves" in said
    assert "53 % of the device's slots" in said
    assert "waves" not in says(
        make.measured(analysis=seen(make.kernel(waves=9.5, tail_efficiency=0.95)))
    )


def test_grid_smaller_than_the_device(make, says):
    said = says(make.measured(analysis=seen(make.kernel(waves=0.3, tail_efficiency=0.3))))
    assert "matmul_kernel's grid fills 30 % of the device" in said


def test_contraction_without_tensor_cores(make, says):
    without = make.kernel(tensor_cores=False)
    assert "no launch has tensor-core" in says(make.measured(analysis=seen(without)))
    assert "tensor-core" not in says(make.measured(analysis=seen(without, make.kernel())))
    assert "tensor-core" not in says(
        make.measured(analysis=seen(without), bound=make.bound(**MEMORY_BOUND))
    )
    assert "tensor-core" not in says(make.measured(analysis=seen()))


def test_a_launch_that_does_not_compile(make, says):
    broken = make.kernel(error="no such function", registers=None, occupancy=None)
    said = says(make.result(analysis=seen(broken)))
    assert said.startswith("matmul_kernel does not compile for h100-sxm")
    said = says(make.result(analysis=seen(broken), verdict=Verdict.DOES_NOT_COMPILE))
    assert said == "matmul_kernel does not compile for h100-sxm: see its error."
    said = says(make.result(verdict=Verdict.DOES_NOT_COMPILE))
    assert said == "The candidate does not compile: see the errors."


def test_a_launch_that_needs_more_than_the_gpu_has(make, says):
    error = "out of resource: shared memory, Required: 262144, Hardware limit: 232448"
    said = says(make.result(analysis=seen(make.kernel(error=error))))
    assert said.startswith("matmul_kernel needs more than h100-sxm has for one block")
    assert "compile" not in said.split(".")[0]


def test_a_problem_smaller_than_a_launch(make, says):
    small = make.kernel(waves=0.01, tail_efficiency=0.004)
    floor = make.bound(time_ms=1e-4, at=replace(make.bound().at, launch_floor_ms=1.2e-3))
    said = says(make.measured(bound=floor, analysis=seen(small)))
    assert said.startswith("Launch-limited: one launch takes at least 1.20 µs")
    assert "grid" not in said  # nothing could fill the device
    unknown = make.bound(time_ms=1e-4)
    said = says(make.measured(bound=unknown, analysis=seen(small)))
    assert "grid" not in said
    assert "Launch-limited" not in said
    said = says(make.measured(analysis=seen(small)))
    assert "grid fills under 1 % of the device" in said


def test_clock_under_the_maximum(make, says):
    slow = make.bound(at=replace(make.bound().at, observed_clock_ms=0.1803))
    measurement = make.measurement(sm_clock_mhz=1410.0)
    said = says(make.measured(bound=slow, measurement=measurement))
    assert "1410 MHz, not 1980" in said
    assert "180 µs and the gap 1.07×" in said  # 192.6 / 180.3
    unmoved = make.bound(at=replace(make.bound().at, observed_clock_ms=0.12839))
    assert "MHz" not in says(make.measured(bound=unmoved, measurement=measurement))


def test_calibrated_gap(make, says):
    said = says(make.measured(score=Score(1.5, 1.21, 0.55, 0.67)))
    assert "the gap is 1.21×" in said


def test_time_between_kernels(make, says):
    said = says(make.measured(measurement=make.measurement(kernel_sum_ms=0.1)))
    assert "No kernel runs for 92.6 µs of the 193 µs" in said
    assert "no kernel running" not in says(make.measured())
    unknown = make.measurement(kernel_sum_ms=None)
    assert "no kernel running" not in says(make.measured(measurement=unknown))


def test_near_the_speed_of_light_there_is_nothing_to_gain(make, says):
    spilling = seen(make.kernel(spills=24))
    said = says(make.measured(score=Score(1.07, None, 0.95, 0.93), analysis=spilling))
    assert said == "Within 7 % of the speed of light: nothing to gain, unless by another algorithm."


def test_wrong_results_get_no_tuning_advice(make, says):
    said = says(
        make.measured(verdict=Verdict.WRONG, score=None, analysis=seen(make.kernel(spills=24)))
    )
    assert said.startswith("The result is wrong (largest error 0.0625)")
    assert "spills" not in said
    assert says(make.result(verdict=Verdict.WRONG)).startswith("The result is wrong:")


@pytest.mark.parametrize(
    ("verdict", "words"),
    [
        (Verdict.CRASHED, "crashed"),
        (Verdict.TIMED_OUT, "ran out of time"),
        (Verdict.OUT_OF_MEMORY, "ran out of memory"),
    ],
)
def test_failures(make, says, verdict, words):
    assert says(make.result(verdict=verdict)) == f"The candidate {words}: see the errors."


def test_impossible_and_beating_the_algorithm(make, says):
    score = Score(0.2, None, 1.0, 5.0)
    said = says(make.measured(verdict=Verdict.IMPOSSIBLE, score=score))
    assert said.startswith("No correct kernel takes less than 30.0 µs here")
    assert "nothing to gain" not in said
    said = says(make.measured(verdict=Verdict.BEATS_ALGORITHM, score=score))
    assert said.startswith("It is faster than the roofline of the reference")
    assert "nothing to gain" not in said


def test_without_evidence_a_profiler_is_named(make, says):
    assert says(make.measured()).startswith("Neither the compiled code nor the timing")


def test_at_most_three_sentences(make):
    kernels = [make.kernel(name=f"k{i}", spills=8) for i in range(9)]
    assert len(advise(make.measured(analysis=seen(*kernels)), make.device())) == 3


def test_live_launches_stand_in_for_those_not_captured(make, says):
    live = make.measurement(launches=(make.kernel(spills=24),))
    missed = Analysis(AnalysisStatus.NOT_CAPTURED)
    assert "spills 24 words" in says(make.measured(analysis=missed, measurement=live))


def test_where_kernels_are_not_analysed_the_vendors_profiler_is_named(make):
    result = make.result(
        analysis=Analysis(AnalysisStatus.UNSUPPORTED_DEVICE), verdict=Verdict.NOT_MEASURED, gap=None
    )
    (results,) = advise(result, devices.find("mi300x"))
    assert "rocprof-compute" in results
    assert "Nsight" not in results
    assert "compiled code" not in results
