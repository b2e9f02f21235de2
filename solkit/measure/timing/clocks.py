"""Clocks, power, temperature and throttle reasons while something runs, from NVML.

Throttled calls
    Two kinds of causes hold an SM clock down. The power limit and locked clocks are part of this
    GPU's setup and affect every kernel, so calls under them count, and the report shows the
    observed clock (`solkit.roofline.bound.at_observed_clock`). Heat, a hardware slowdown and a
    power brake come from outside the kernel: `screen_calls` leaves out up to `MOST_LEFT_OUT` of the
    calls under them; with more, the whole measurement is unstable.
"""

from __future__ import annotations

import contextlib
import math
import threading
import time
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import attrgetter, or_
from statistics import median
from typing import Any

import pynvml

from solkit.core import Conditions

MOST_LEFT_OUT = 0.25
"""The largest share of calls that may be left out as throttled."""

_PERIOD_S = 0.01
_REACH_S = 2 * _PERIOD_S  # calls are shorter than the time between two NVML queries

_REASONS = {
    0x001: "idle",
    0x002: "application clocks",
    0x004: "power cap",
    0x008: "hardware slowdown",
    0x010: "sync boost",
    0x020: "software thermal slowdown",
    0x040: "hardware thermal slowdown",
    0x080: "power brake",
    0x100: "display clocks",
}
"""Bits of nvmlDeviceGetCurrentClocksEventReasons: nvml.h, nvmlClocksEventReason*."""

_FROM_OUTSIDE = 0x008 | 0x020 | 0x040 | 0x080


@dataclass(frozen=True)
class Sample:
    """NVML's readings at one moment; ``None`` for what it refuses."""

    time_s: float  # on `time.monotonic`'s clock, which all processes on a machine share
    sm_clock_mhz: float | None = None  # as named
    memory_clock_mhz: float | None = None
    power_w: float | None = None
    temperature_c: float | None = None
    reasons: int | None = None  # bits of what holds the clock down


class ConditionSampler:
    """Samples NVML in a background thread, inside a ``with`` block.

    The UUID may be a MIG slice's, whose GPU is then queried.
    """

    def __init__(self, uuid: str) -> None:
        self._uuid = uuid
        self._samples: list[Sample] = []
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._read_samples, daemon=True)

    def __enter__(self) -> ConditionSampler:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    @property
    def samples(self) -> tuple[Sample, ...]:
        """All samples so far, in order of time; empty without NVML."""
        return tuple(self._samples)

    def conditions_since(self, time_s: float = 0.0) -> Conditions:
        """Return the conditions since a moment of `time.monotonic`."""
        return summarise_samples([sample for sample in self.samples if sample.time_s >= time_s])

    def _read_samples(self) -> None:
        with contextlib.suppress(pynvml.NVMLError), _nvml_gpu(self._uuid) as gpu:
            while True:  # fails in a container without NVML: then there are no samples
                self._samples.append(_take_sample(gpu))
                if self._stop.wait(_PERIOD_S):
                    return


def summarise_samples(samples: Sequence[Sample]) -> Conditions:
    """Return medians and extremes of the samples."""
    readings = {
        name: [value for s in samples if (value := getattr(s, name)) is not None]
        for name in ("sm_clock_mhz", "memory_clock_mhz", "power_w", "temperature_c", "reasons")
    }
    middle = {name: median(values) if values else None for name, values in readings.items()}
    reasons = readings["reasons"]
    counts = {name: sum(bool(r & bit) for r in reasons) for bit, name in _REASONS.items()}
    return Conditions(
        samples=len(samples),
        sm_clock_mhz=middle["sm_clock_mhz"],
        sm_clock_low_mhz=min(readings["sm_clock_mhz"], default=None),
        memory_clock_mhz=middle["memory_clock_mhz"],
        power_w=middle["power_w"],
        power_high_w=max(readings["power_w"], default=None),
        temperature_c=max(readings["temperature_c"], default=None),
        reasons={name: round(n / len(reasons), 3) for name, n in counts.items() if n},
    )


@dataclass(frozen=True)
class Interval:
    """The earliest and latest time at which a timed call ran, on `time.monotonic`'s clock.

    For batched calls it is the batch's interval.
    """

    start_s: float
    end_s: float


@dataclass(frozen=True)
class Screening:
    """Selection of the timed calls that count."""

    kept: tuple[bool, ...]  # whether each call counts; all do if the measurement is unstable
    reasons: tuple[str, ...] = ()  # what throttled the calls, by name
    evidence: tuple[str, ...] = ()  # why the measurement is unstable; empty if it is not

    @property
    def left_out(self) -> int:
        """Number of calls that do not count."""
        return self.kept.count(False)


def screen_calls(calls: Sequence[Interval], samples: Sequence[Sample]) -> Screening:
    """Leave out calls that heat, the hardware or a power brake slowed down.

    A call counts as throttled if a sample within 20 ms of it (two periods of the sampler) names
    such a reason. At most `MOST_LEFT_OUT` of the calls are left out, rounded down: with more, the
    rest would be selected moments rather than the GPU's usual state. Without samples, all calls
    count.
    """
    bits = [_throttle_bits(call, samples) for call in calls]
    throttled = sum(map(bool, bits))
    reasons = tuple(name for bit, name in _REASONS.items() if any(b & bit for b in bits))
    if throttled <= math.floor(MOST_LEFT_OUT * len(calls)):
        return Screening(tuple(not b for b in bits), reasons)
    evidence = (
        f"{throttled} of {len(calls)} timed calls ran while the GPU was throttled by "
        f"{', '.join(reasons)}; at most {MOST_LEFT_OUT:.0%} may be left out."
    )
    return Screening((True,) * len(calls), reasons, (evidence,))


def _throttle_bits(call: Interval, samples: Sequence[Sample]) -> int:
    """Return the bits of external reasons that held the clock down around a call."""
    first = bisect_left(samples, call.start_s - _REACH_S, key=attrgetter("time_s"))
    last = bisect_right(samples, call.end_s + _REACH_S, key=attrgetter("time_s"))
    return _FROM_OUTSIDE & reduce(or_, (sample.reasons or 0 for sample in samples[first:last]), 0)


@contextlib.contextmanager
def _nvml_gpu(uuid: str) -> Iterator[Any]:
    """NVML's handle of a GPU; of a MIG slice, its whole GPU's, since clocks belong to that."""
    pynvml.nvmlInit()
    try:
        handle = pynvml.nvmlDeviceGetHandleByUUID(uuid)
        if uuid.startswith("MIG-"):
            handle = pynvml.nvmlDeviceGetDeviceHandleFromMigDeviceHandle(handle)
        yield handle
    finally:
        pynvml.nvmlShutdown()


def _take_sample(gpu: Any) -> Sample:
    def query_nvml(ask: str, *arguments: Any) -> Any:
        """NVML's answer; ``None`` if this GPU, driver or user may not have it."""
        try:
            return getattr(pynvml, f"nvmlDeviceGet{ask}")(gpu, *arguments)
        except pynvml.NVMLError:
            return None

    def query_number(ask: str, *arguments: Any) -> float | None:
        value = query_nvml(ask, *arguments)
        return None if value is None else float(value)

    fields = query_nvml("FieldValues", [pynvml.NVML_FI_DEV_POWER_INSTANT])
    if fields is not None and fields[0].nvmlReturn == pynvml.NVML_SUCCESS:
        power_mw: float | None = float(fields[0].value.uiVal)
    else:  # the average over a second: some GPUs report only that
        power_mw = query_number("PowerUsage")
    return Sample(
        time.monotonic(),
        query_number("ClockInfo", pynvml.NVML_CLOCK_SM),
        query_number("ClockInfo", pynvml.NVML_CLOCK_MEM),
        None if power_mw is None else power_mw / 1e3,
        query_number("Temperature", pynvml.NVML_TEMPERATURE_GPU),
        query_nvml("CurrentClocksThrottleReasons"),
    )
