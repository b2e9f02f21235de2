"""The SM clock while kernels run, from NVML."""

from __future__ import annotations

import threading
from statistics import median
from types import TracebackType

import pynvml

__all__ = ["ClockSampler"]

_PERIOD_S = 0.005


class ClockSampler:
    """Reads the SM clock in a background thread, inside a ``with`` block.

    Args:
        uuid: NVML's identifier of the GPU.
    """

    def __init__(self, uuid: str) -> None:
        self._uuid = uuid
        self._samples_mhz: list[int] = []
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._read, daemon=True)

    def __enter__(self) -> ClockSampler:
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
    def median_mhz(self) -> float | None:
        """Median of the clocks seen; ``None`` where NVML refused."""
        return float(median(self._samples_mhz)) if self._samples_mhz else None

    def _read(self) -> None:
        try:
            pynvml.nvmlInit()
            gpu = pynvml.nvmlDeviceGetHandleByUUID(self._uuid)
            while True:
                self._samples_mhz.append(pynvml.nvmlDeviceGetClockInfo(gpu, pynvml.NVML_CLOCK_SM))
                if self._stop.wait(_PERIOD_S):
                    return
        except pynvml.NVMLError:
            return  # refused (a MIG slice, a container without NVML): median_mhz says so
