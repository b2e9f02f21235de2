"""Which calls count, and how NVML is asked."""

from __future__ import annotations

import time

import pynvml
import pytest

from solkit.core import Conditions
from solkit.measure.timing import clocks
from solkit.measure.timing.clocks import (
    ConditionSampler,
    Interval,
    Sample,
    screen_calls,
    summarise_samples,
)

POWER_CAP, HARDWARE, SOFT_HEAT, HARD_HEAT, BRAKE = 0x4, 0x8, 0x20, 0x40, 0x80
IDLE, LOCKED = 0x1, 0x2


def test_conditions_are_medians_and_extremes():
    samples = [
        Sample(0.0, 1000, 2600, 300, 40, POWER_CAP),
        Sample(0.1, 1200, 2600, 700, 42, POWER_CAP | HARD_HEAT),
        Sample(0.2, 1900, None, 650, 41, 0),
        Sample(0.3),
    ]
    assert summarise_samples(samples) == Conditions(
        samples=4, sm_clock_mhz=1200, sm_clock_low_mhz=1000, memory_clock_mhz=2600, power_w=650,
        power_high_w=700, temperature_c=42,
        reasons={"power cap": 0.667, "hardware thermal slowdown": 0.333},
    )  # fmt: skip
    assert summarise_samples([]) == Conditions(samples=0)


# ---------------------------------------------------------------------------- throttled calls


def every(period_s, reasons):
    """A run: NVML's answers, so many seconds apart."""
    return [Sample(i * period_s, 1500, reasons=bits) for i, bits in enumerate(reasons)]


def calls_at(*starts):
    return [Interval(start, start + 0.001) for start in starts]


# One second of a matrix product on a 700 W GPU that soon meets its power limit, and whose
# heat slowdown sets in for 0.1 s: NVML asked every 10 ms.
HOT_SPELL = every(0.01, [0] * 10 + [POWER_CAP] * 50 + [POWER_CAP | SOFT_HEAT] * 10 + [0] * 30)


def test_calls_in_a_hot_spell_are_left_out():
    calls = calls_at(*(i / 20 for i in range(20)))  # 0, 0.05, ... 0.95 s
    results = screen_calls(calls, HOT_SPELL)
    # heat is named at 0.60, 0.61 ... 0.69 s, and reaches 20 ms to either side: the calls at 0.60,
    # 0.65 and 0.70 s; the one at 0.55 s is over 49 ms before
    assert [i for i, kept in enumerate(results.kept) if not kept] == [12, 13, 14]
    assert results.left_out == 3
    assert (results.reasons, results.evidence) == (("software thermal slowdown",), ())


def test_what_belongs_to_the_gpu_is_no_reason():
    samples = every(0.01, [POWER_CAP | LOCKED | IDLE] * 100)
    assert screen_calls(calls_at(0.1, 0.5), samples) == clocks.Screening((True, True))


@pytest.mark.parametrize("bit", [HARDWARE, SOFT_HEAT, HARD_HEAT, BRAKE])
def test_what_comes_from_outside_is_one(bit):
    samples = every(0.01, [bit] * 10 + [0] * 90)
    assert screen_calls(calls_at(0.05, 0.5, 0.6, 0.7), samples).kept == (False, True, True, True)


@pytest.mark.parametrize(("throttled", "unstable"), [(0, False), (5, False), (6, True), (20, True)])
def test_a_quarter_may_be_left_out_and_no_more(throttled, unstable):
    samples = every(1.0, [BRAKE] * throttled + [0] * (20 - throttled))
    calls = screen_calls(calls_at(*range(20)), samples)
    assert bool(calls.evidence) == unstable
    assert calls.left_out == (0 if unstable else throttled)
    if unstable:
        assert calls.evidence[0].startswith(f"{throttled} of 20 timed calls ran while the GPU was")
        assert "power brake" in calls.evidence[0]


def test_of_three_calls_none_may_be_left_out():
    calls = screen_calls(calls_at(0, 1, 2), every(1.0, [HARD_HEAT, 0, 0]))
    assert calls.left_out == 0
    assert len(calls.evidence) == 1


def test_a_long_call_is_throttled_by_what_it_met_in_its_middle():
    samples = every(0.01, [0] * 50 + [HARD_HEAT] + [0] * 49)
    calls = [Interval(0.0, 0.99), *calls_at(0.1, 0.2, 0.3)]
    assert screen_calls(calls, samples).kept == (False, True, True, True)


@pytest.mark.parametrize("samples", [[], [Sample(0.0), Sample(0.5)]])
def test_where_nvml_says_nothing_every_call_counts(samples):
    assert screen_calls(calls_at(0.0, 0.5), samples) == clocks.Screening((True, True))


def test_no_calls():
    assert screen_calls([], HOT_SPELL) == clocks.Screening(())


# -------------------------------------------------------------------------------------- NVML


class Library:
    """Stands for pynvml: a GPU whose clock falls, that refuses to tell its temperature."""

    NVMLError = pynvml.NVMLError
    NVML_CLOCK_SM, NVML_CLOCK_MEM = pynvml.NVML_CLOCK_SM, pynvml.NVML_CLOCK_MEM
    NVML_TEMPERATURE_GPU, NVML_SUCCESS = pynvml.NVML_TEMPERATURE_GPU, pynvml.NVML_SUCCESS
    NVML_FI_DEV_POWER_INSTANT = pynvml.NVML_FI_DEV_POWER_INSTANT

    def __init__(self):
        self.open, self.asked, self.clock = 0, [], 1980

    def nvmlInit(self):  # noqa: N802
        self.open += 1

    def nvmlShutdown(self):  # noqa: N802
        self.open -= 1

    def nvmlDeviceGetHandleByUUID(self, uuid):  # noqa: N802
        if uuid == "GPU-gone":
            raise pynvml.NVMLError_NotFound
        return f"handle of {uuid}"

    def nvmlDeviceGetDeviceHandleFromMigDeviceHandle(self, handle):  # noqa: N802
        return f"parent of {handle}"

    def nvmlDeviceGetClockInfo(self, gpu, which):  # noqa: N802
        self.asked.append(gpu)
        if which == pynvml.NVML_CLOCK_MEM:
            return 2619
        self.clock -= 15
        return self.clock

    def nvmlDeviceGetPowerUsage(self, gpu):  # noqa: N802, ARG002
        return 700_500

    def nvmlDeviceGetCurrentClocksThrottleReasons(self, gpu):  # noqa: N802, ARG002
        return POWER_CAP

    def __getattr__(self, name):
        def refuse(*_):
            raise pynvml.NVMLError_NotSupported

        return refuse


@pytest.fixture
def library(monkeypatch):
    library = Library()
    monkeypatch.setattr(clocks, "pynvml", library)
    return library


def sampled(uuid, enough=3):
    with ConditionSampler(uuid) as sampler:
        limit = time.monotonic() + 60
        while len(sampler.samples) < enough and time.monotonic() < limit:
            time.sleep(0.005)
    return sampler


def test_samples_are_in_order_of_time_and_say_what_is_refused(library):
    before = time.monotonic()
    sampler = sampled("GPU-a")
    first, second, *_ = sampler.samples
    assert before <= first.time_s < second.time_s <= time.monotonic()
    assert first == Sample(first.time_s, 1965, 2619, 700.5, None, POWER_CAP)
    assert second.sm_clock_mhz == 1950
    assert library.open == 0
    assert sampler.conditions_since(second.time_s).samples == len(sampler.samples) - 1


def test_the_clocks_of_a_slice_are_its_gpus(library):
    sampled("MIG-b", enough=1)
    assert set(library.asked) == {"parent of handle of MIG-b"}


def test_a_gpu_that_nvml_does_not_know_has_no_samples(library):
    assert sampled("GPU-gone", enough=0).samples == ()
    assert library.open == 0
