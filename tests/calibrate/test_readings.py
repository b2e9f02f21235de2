"""From samples to readings, conditions and warnings."""

import pytest

from solkit.calibrate.probes import tensor_names
from solkit.calibrate.session import warnings_of
from solkit.calibrate.stopwatch import Probe, marked_seconds
from solkit.core import Conditions
from solkit.errors import UnsupportedError
from solkit.measure import is_available
from solkit.measure.timing.activities import Activity, Kind
from solkit.roofline import devices
from solkit.roofline.calibration import Reading, Regime
from solkit.roofline.calibration.record import Gpu

GPU = Gpu(key="k", name="n", uuid="u", sm_count=1, max_sm_clock_mhz=2000, max_memory_clock_mhz=1)


def test_a_reading_is_the_median_with_its_interval():
    probe = Probe("read", "dram", "B/s", 1e9, lambda: None, "how", 7)
    rates = [float(rate) for rate in (5, 1, 9, 3, 7, 2, 8, 4, 6)]
    result = probe.make_reading(Regime.SUSTAINED, rates, "events")
    # 9 samples: P(x(2) <= median <= x(8)) = 1 - 2 (1 + 9) / 2^9 = 0.961
    assert (result.low, result.value, result.high, result.samples) == (2, 5, 8, 9)
    assert (result.ceiling, result.size_bytes, result.detail) == ("dram", 7, "how")
    assert probe.make_reading(Regime.WARM, rates, "cupti").ceiling is None


def gpu(name, start, end):
    return Activity(Kind.GPU, name, start, end)


def test_the_activity_before_each_marker_is_timed():
    ran = [
        gpu("spin_kernel", 50, 60),
        gpu("flush", 0, 30),
        gpu("read_kernel", 30, 45),
        Activity(Kind.LAUNCH, "cudaLaunchKernel", 46, 49),
        gpu("copy_kernel", 70, 90),  # warms L2 up
        gpu("copy_kernel", 90, 101),
        gpu("spin_kernel", 102, 103),
    ]
    assert marked_seconds(ran, 2) == pytest.approx([15e-9, 11e-9])
    with pytest.raises(UnsupportedError, match="2 of 3"):
        marked_seconds(ran, 3)


def sustained(name, clock, reasons):
    return Reading(
        name=name, ceiling=name, regime=Regime.SUSTAINED, unit="op/s", value=1, low=1, high=1,
        samples=1, timer="events", sm_clock_mhz=clock,
        conditions=Conditions(samples=9, sm_clock_mhz=clock, reasons=reasons),
    )  # fmt: skip


def test_a_power_cap_is_expected_and_heat_is_not():
    capped = sustained("tensor.bf16", 1200, {"power cap": 1.0})
    hot = sustained("fp32", 1990, {"hardware thermal slowdown": 0.25})
    assert not list(warnings_of([capped, sustained("sfu", 2000, {})], GPU))
    (warning,) = warnings_of([capped, hot], GPU)
    assert warning == "fp32, sustained: held down by hardware thermal slowdown (25%)."


def test_a_locked_clock_is_told():
    (warning,) = warnings_of([sustained("sfu", 1500, {}), sustained("fp32", 1500, {})], GPU)
    assert "never rose above 1500 of 2000 MHz" in warning


def test_every_tensor_pipe_that_torch_can_use_is_in_the_catalogue():
    assert set(tensor_names()) <= set(devices.find("h100").ceilings)


@pytest.mark.slow
@pytest.mark.skipif(is_available(), reason="there is a GPU")
def test_without_a_gpu_it_says_so():
    from dataclasses import replace

    from solkit.calibrate import calibrate

    with pytest.raises(UnsupportedError, match="not in this machine"):
        calibrate(devices.find("h100"))
    with pytest.raises(UnsupportedError, match="sees no CUDA device"):  # from the child
        calibrate(replace(devices.find("h100"), uuid="GPU-1"))
