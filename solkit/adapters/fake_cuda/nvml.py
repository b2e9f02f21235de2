"""NVML's Python binding (`pynvml`) with the answers of a machine that has the GPU.

Libraries ask it for names, clocks and sizes when they are imported. Where the target is no GPU of
NVIDIA's, or for what is not answered here, it stays as it is: without its library it raises errors.
"""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from solkit.adapters.fake_cuda.driver_commands import DRIVER_VERSION
from solkit.adapters.fake_cuda.extensions import when_imported
from solkit.core import Device

_CUDA_DRIVER_VERSION = 13000  # 1000 x major + 10 x minor


_HANDLES = tuple(f"nvmlDeviceGetHandleBy{by}" for by in ("Index", "Index_v2", "UUID", "PciBusId"))
_CLOCKS = ("nvmlDeviceGetMaxClockInfo", "nvmlDeviceGetClockInfo", "nvmlDeviceGetApplicationsClock")
_MEMORY_CLOCK = 2  # nvmlClockType_t: NVML_CLOCK_MEM


def fake_nvml(device: Device) -> None:
    """Let `pynvml` answer as on a machine with a device, once it is imported."""
    if device.vendor != "NVIDIA":
        return

    def change(module: Any) -> None:
        answers = {name: _constant(value) for name, value in _constants(device).items()}
        for name, answer in {**answers, **dict.fromkeys(_CLOCKS, _clock_of(device))}.items():
            if hasattr(module, name):
                setattr(module, name, answer)

    when_imported("pynvml", change)


def _constant(value: Any) -> Callable[..., Any]:
    return lambda *_, **__: value


def _clock_of(device: Device) -> Callable[..., int]:
    """Return what tells a clock in MHz by its kind; all but the memory's are the SMs'."""
    dram = device.ceilings.get("dram")
    memory_mhz = round(dram.clock_mhz) if dram and dram.clock_mhz else 0
    return lambda _, kind, *__: memory_mhz if kind == _MEMORY_CLOCK else round(device.clock_mhz)


def _constants(device: Device) -> dict[str, Any]:
    memory = SimpleNamespace(total=device.memory_bytes, free=device.memory_bytes, used=0)
    return {
        **dict.fromkeys(("nvmlInit", "nvmlInit_v2", "nvmlInitWithFlags", "nvmlShutdown")),
        "nvmlSystemGetDriverVersion": DRIVER_VERSION,
        "nvmlSystemGetCudaDriverVersion": _CUDA_DRIVER_VERSION,
        "nvmlSystemGetCudaDriverVersion_v2": _CUDA_DRIVER_VERSION,
        "nvmlDeviceGetCount": 1,
        **dict.fromkeys(_HANDLES, SimpleNamespace(index=0)),
        "nvmlDeviceGetName": device.name,
        "nvmlDeviceGetIndex": 0,
        "nvmlDeviceGetMemoryInfo": memory,
        "nvmlDeviceGetCudaComputeCapability": device.compute_capability,
    }
