"""Clocks, power, temperature and throttle reasons while something runs, from NVML.

Throttled calls
    Two kinds of causes hold an SM clock down. The power limit and locked clocks are part of this
    GPU's setup and affect every kernel, so calls under them count, and the report shows the
    observed clock (`solkit.roofline.bound.at_observed_clock`). Heat, a hardware slowdown and a
    power brake come from outside the kernel: `screen` leaves out up to `MOST_LEFT_OUT` of the calls
    under them; with more, the whole measurement is unstable.
"""

from __future__ import annotations

import contextlib
import math
import threading
import time
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from statistics import median
from types import TracebackType
from typing import Any

import pynvml

from solkit.core import Conditions

__all__ = [
    "MOST_LEFT_OUT",
    "ConditionSampler",
    "Interval",
    "Sample",
    "Screening",
    "screen",
    "summarise",
]

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
    """NVML's readings at one moment; ``None`` for what it refuses.

    Attributes:
        time_s: on `time.monotonic`'s clock, which all processes on a machine share.
        sm_clock_mhz, memory_clock_mhz, power_w, temperature_c: as named.
        reasons: bits of what holds the clock down.
    """

    time_s: float
    sm_clock_mhz: float | None = None
    memory_clock_mhz: float | None = None
    power_w: float | None = None
    temperature_c: float | None = None
    reasons: int | None = None


class ConditionSampler:
    """Samples NVML in a background thread, inside a ``with`` block.

    Args:
        uuid: NVML's identifier of the GPU, or of a MIG slice, whose GPU is then queried.
    """

    def __init__(self, uuid: str) -> None:
        self._uuid = uuid
        self._samples: list[Sample] = []
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._read, daemon=True)

    def __enter__(self) -> ConditionSampler:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stop.set()
        self._thread.join()

    @property
    def samples(self) -> tuple[Sample, ...]:
        """All samples so far, in order of time; empty without NVML."""
        return tuple(self._samples)

    def since(self, time_s: float = 0.0) -> Conditions:
        """The samples since a moment of `time.monotonic`."""
        return summarise([sample for sample in self.samples if sample.time_s >= time_s])

    def _read(self) -> None:
        with contextlib.suppress(pynvml.NVMLError), _gpu(self._uuid) as gpu:
            while True:  # fails in a container without NVML: then there are no samples
                self._samples.append(_sample(gpu))
                if self._stop.wait(_PERIOD_S):
                    return


def summarise(samples: Sequence[Sample]) -> Conditions:
    """Medians and extremes of the samples."""
    clocks = [s.sm_clock_mhz for s in samples if s.sm_clock_mhz is not None]
    power = [s.power_w for s in samples if s.power_w is not None]
    memory = [s.memory_clock_mhz for s in samples if s.memory_clock_mhz is not None]
    heat = [s.temperature_c for s in samples if s.temperature_c is not None]
    told = [s.reasons for s in samples if s.reasons is not None]
    shares = {name: sum(bool(r & bit) for r in told) for bit, name in _REASONS.items()}
    return Conditions(
        samples=len(samples),
        sm_clock_mhz=median(clocks) if clocks else None,
        sm_clock_low_mhz=min(clocks, default=None),
        memory_clock_mhz=median(memory) if memory else None,
        power_w=median(power) if power else None,
        power_high_w=max(power, default=None),
        temperature_c=max(heat, default=None),
        reasons={name: round(n / len(told), 3) for name, n in shares.items() if n},
    )


# ---------------------------------------------------------------------------- throttled calls


@dataclass(frozen=True)
class Interval:
    """The earliest and latest time at which a timed call ran, on `time.monotonic`'s clock.

    For batched calls it is the batch's interval.
    """

    start_s: float
    end_s: float


@dataclass(frozen=True)
class Screening:
    """Which timed calls count.

    Attributes:
        kept: whether each call counts; all do if the measurement is unstable.
        reasons: what throttled the calls, by name.
        evidence: why the measurement is unstable; empty if it is not.
    """

    kept: tuple[bool, ...]
    reasons: tuple[str, ...] = ()
    evidence: tuple[str, ...] = ()

    @property
    def left_out(self) -> int:
        """How many calls do not count."""
        return self.kept.count(False)


def screen(calls: Sequence[Interval], samples: Sequence[Sample]) -> Screening:
    """Leave out calls that heat, the hardware or a power brake slowed down.

    A call counts as throttled if a sample within 20 ms of it (two periods of the sampler) names
    such a reason. At most `MOST_LEFT_OUT` of the calls are left out, rounded down: with more, the
    rest would be selected moments rather than the GPU's usual state.

    Args:
        calls: when each timed call ran.
        samples: NVML's samples of that time, in order; without any, all calls count.
    """
    bits = [_held_down(call, samples) for call in calls]
    throttled = sum(map(bool, bits))
    reasons = tuple(name for bit, name in _REASONS.items() if any(b & bit for b in bits))
    if throttled <= math.floor(MOST_LEFT_OUT * len(calls)):
        return Screening(tuple(not b for b in bits), reasons)
    evidence = (
        f"{throttled} of {len(calls)} timed calls ran while the GPU was throttled by "
        f"{', '.join(reasons)}; at most {MOST_LEFT_OUT:.0%} may be left out."
    )
    return Screening((True,) * len(calls), reasons, (evidence,))


def _held_down(call: Interval, samples: Sequence[Sample]) -> int:
    """The bits of external reasons that held the clock down around a call."""
    first = bisect_left(samples, call.start_s - _REACH_S, key=_time_s)
    last = bisect_right(samples, call.end_s + _REACH_S, key=_time_s)
    bits = 0
    for sample in samples[first:last]:
        bits |= sample.reasons or 0
    return bits & _FROM_OUTSIDE


def _time_s(sample: Sample) -> float:
    return sample.time_s


# --------------------------------------------------------------------------------------- NVML


@contextlib.contextmanager
def _gpu(uuid: str) -> Iterator[Any]:
    """NVML's handle of a GPU; of a MIG slice, its whole GPU's, since clocks belong to that."""
    pynvml.nvmlInit()
    try:
        handle = pynvml.nvmlDeviceGetHandleByUUID(uuid)
        if uuid.startswith("MIG-"):
            handle = pynvml.nvmlDeviceGetDeviceHandleFromMigDeviceHandle(handle)
        yield handle
    finally:
        pynvml.nvmlShutdown()


def _sample(gpu: Any) -> Sample:
    return Sample(
        time.monotonic(),
        _told(lambda: float(pynvml.nvmlDeviceGetClockInfo(gpu, pynvml.NVML_CLOCK_SM))),
        _told(lambda: float(pynvml.nvmlDeviceGetClockInfo(gpu, pynvml.NVML_CLOCK_MEM))),
        _power_w(gpu),
        _told(lambda: float(pynvml.nvmlDeviceGetTemperature(gpu, pynvml.NVML_TEMPERATURE_GPU))),
        _told(lambda: int(pynvml.nvmlDeviceGetCurrentClocksThrottleReasons(gpu))),
    )


def _power_w(gpu: Any) -> float | None:
    """Current power, or the one-second average on GPUs that only report that."""
    field = _told(
        lambda: pynvml.nvmlDeviceGetFieldValues(gpu, [pynvml.NVML_FI_DEV_POWER_INSTANT])[0]
    )
    if field is not None and field.nvmlReturn == pynvml.NVML_SUCCESS:
        return float(field.value.uiVal) / 1e3
    average: float | None = _told(lambda: float(pynvml.nvmlDeviceGetPowerUsage(gpu)) / 1e3)
    return average


def _told(ask: Callable[[], Any]) -> Any:
    """NVML's answer; ``None`` if this GPU, driver or user may not have it."""
    try:
        return ask()
    except pynvml.NVMLError:
        return None
