"""Clock, power, temperature and throttle reasons while something runs, from NVML."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median
from types import TracebackType
from typing import Any

import pynvml

from solkit.roofline.calibration.record import Conditions

__all__ = ["ConditionSampler", "Sample", "summarise"]

_PERIOD_S = 0.01

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


@dataclass(frozen=True)
class Sample:
    """What NVML tells at one moment; ``None`` where it refuses.

    Attributes:
        time_s: on `time.monotonic`'s clock.
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
        uuid: NVML's identifier of the GPU.
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

    def since(self, time_s: float = 0.0) -> Conditions:
        """What was seen from a moment of `time.monotonic` on."""
        return summarise([sample for sample in self._samples if sample.time_s >= time_s])

    def _read(self) -> None:
        try:
            pynvml.nvmlInit()
            gpu = pynvml.nvmlDeviceGetHandleByUUID(self._uuid)
        except pynvml.NVMLError:
            return  # a container without NVML: no samples say so
        while True:
            self._samples.append(_sample(gpu))
            if self._stop.wait(_PERIOD_S):
                return


def summarise(samples: Sequence[Sample]) -> Conditions:
    """Medians and extremes of what was sampled."""
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
    """Power now; on GPUs that only tell an average over a second, that."""
    field = _told(
        lambda: pynvml.nvmlDeviceGetFieldValues(gpu, [pynvml.NVML_FI_DEV_POWER_INSTANT])[0]
    )
    if field is not None and field.nvmlReturn == pynvml.NVML_SUCCESS:
        return float(field.value.uiVal) / 1e3
    average: float | None = _told(lambda: float(pynvml.nvmlDeviceGetPowerUsage(gpu)) / 1e3)
    return average


def _told(ask: Callable[[], Any]) -> Any:
    """What NVML answers; ``None`` where this GPU, driver or user does not get it."""
    try:
        return ask()
    except pynvml.NVMLError:
        return None
