"""`torch.cuda` with the answers of a machine that has the GPU."""

# mypy: disable-error-code="no-untyped-call"
# (much of torch's inside is untyped)

from __future__ import annotations

import contextlib
import functools
import sys
from collections import Counter
from collections.abc import Callable
from types import ModuleType, SimpleNamespace
from typing import Any

import torch

from solkit.core import Device


class Nothing(contextlib.AbstractContextManager["Nothing"]):
    """Replaces streams, events and device contexts: every method does nothing."""

    cuda_stream = 0
    stream_id = 0
    device_index = 0
    device = torch.device("cuda", 0)

    def __init__(self, *_: Any, **__: Any) -> None:
        self.idx = 0

    def __exit__(self, *_: object) -> None:
        return None

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if name.startswith("__"):
            raise AttributeError(name)
        return lambda *_, **__: None

    def query(self) -> bool:
        """Tell if all work is done."""
        return True

    def elapsed_time(self, _: Any) -> float:
        """Milliseconds since an event."""
        return 1.0  # milliseconds; never 0, which callers divide by

    def record_event(self, *_: Any) -> Nothing:
        """Return an event."""
        return Nothing()


def _properties(device: Device) -> SimpleNamespace:
    """Return what `torch.cuda.get_device_properties` does, from the catalogue's figures."""
    major, minor = device.compute_capability
    return SimpleNamespace(
        name=device.name,
        major=major,
        minor=minor,
        total_memory=device.memory_bytes,
        multi_processor_count=device.sm_count,
        warp_size=device.limits.warp_threads,
        max_threads_per_block=1024,
        max_threads_per_multi_processor=device.limits.threads,
        regs_per_multiprocessor=device.limits.registers,
        shared_memory_per_block=48 * 1024,  # without opting in: CUDA C++ Programming Guide
        shared_memory_per_block_optin=device.limits.shared_per_block_bytes,
        shared_memory_per_multiprocessor=device.limits.shared_bytes,
        L2_cache_size=device.l2_bytes,
        clock_rate=int(device.clock_mhz * 1000),  # kHz
        memory_clock_rate=_memory_clock_khz(device),
        memory_bus_width=memory_bus_bits(device),
        uuid="00000000-0000-0000-0000-000000000000",
        pci_bus_id=0,
        pci_device_id=0,
        pci_domain_id=0,
        is_integrated=False,
        is_multi_gpu_board=False,
        gcnArchName=device.architecture if device.vendor == "AMD" else "",
    )


def _memory_clock_khz(device: Device) -> int:
    dram = device.ceilings.get("dram")
    return int(dram.clock_mhz * 1000) if dram else 0


def memory_bus_bits(device: Device) -> int:
    """Return the memory bus width, from the bandwidth at two transfers a clock.

    Source: CUDA C++ Best Practices Guide, "Theoretical Bandwidth".
    """
    dram = device.ceilings.get("dram")
    if dram is None or not dram.clock_mhz:
        return 0
    return 64 * round(8 * dram.value / (2 * dram.clock_mhz * 1e6) / 64)  # buses come in 64 bits


_RETURNING_NONE = """
    _lazy_init init set_device set_stream synchronize empty_cache ipc_collect check_error
    reset_peak_memory_stats reset_max_memory_allocated reset_max_memory_cached
    reset_accumulated_memory_stats reset_peak_host_memory_stats reset_accumulated_host_memory_stats
    set_per_process_memory_fraction set_sync_debug_mode caching_allocator_delete
    caching_allocator_enable change_current_allocator
""".split()
_RETURNING_ZERO = """
    memory_allocated max_memory_allocated memory_reserved max_memory_reserved memory_usage
    device_memory_used utilization temperature power_draw current_device get_device_index
    get_sync_debug_mode current_blas_handle current_solver_handle caching_allocator_alloc
""".split()


_RAW = {
    "_cuda_getCurrentRawStream": 0,
    "_cuda_getCurrentStream": (0, 0, 1),  # id, index and type of the device: CUDA is 1
    "_cuda_getDefaultStream": (0, 0, 1),
    "_cuda_getDevice": 0,
    "_cuda_getDeviceCount": 1,
}
"""Functions of CUDA builds' ``torch._C`` that libraries take when they are imported; a build's own
look for the GPU."""

_RETURNING_STREAMS = "get_stream_from_external cudart current_stream default_stream stream".split()


def _cuda_values(device: Device) -> dict[str, Any]:
    """Return the results of the query functions of `torch.cuda`, by name."""
    major, minor = device.compute_capability
    return {
        "is_available": True,
        "is_initialized": True,
        "_is_compiled": False,  # keeps torch off code that needs the real library
        "device_count": 1,
        "get_device_properties": _properties(device),
        "get_device_capability": (major, minor),
        "get_device_name": device.name,
        "get_arch_list": [f"sm_{major}{minor}"],
        "is_bf16_supported": (major, minor) >= (8, 0),
        "is_current_stream_capturing": False,
        "mem_get_info": (device.memory_bytes, device.memory_bytes),
        "memory_stats": Counter(),  # any counter is 0
        "host_memory_stats": Counter(),
        "memory_stats_as_nested_dict": {},
        "host_memory_stats_as_nested_dict": {},
        "memory_snapshot": [],
        **dict.fromkeys(("memory_summary", "list_gpu_processes"), ""),
        "clock_rate": int(device.clock_mhz),  # MHz
        "can_device_access_peer": False,
        "get_allocator_backend": "native",
        "get_per_process_memory_fraction": 1.0,
        "get_gencode_flags": f"-gencode compute=compute_{major}{minor},code=sm_{major}{minor}",
        "graph_pool_handle": (0, 0),
        "is_tf32_supported": (major, minor) >= (8, 0),
        **dict.fromkeys(_RETURNING_STREAMS, Nothing()),
        **dict.fromkeys(_RETURNING_ZERO, 0),
        **dict.fromkeys(_RETURNING_NONE),
    }


_DOING_NOTHING = (
    *("Stream", "ExternalStream", "Event", "device", "_DeviceGuard", "device_of"),
    *("MemPool", "use_mem_pool"),
)
_CUDA_VERSION = "13.0"
"""Replaces a CPU build's missing version: the stable CUDA of torch 2.11 (PyTorch RELEASE.md)."""
_HIP_VERSION = "7.1"
"""As `_CUDA_VERSION`, where launchers look whether they run on an AMD GPU."""


def fake_torch_cuda(device: Device) -> None:
    """Make `torch.cuda` answer as on `device`."""
    for name, value in _cuda_values(device).items():
        replace_in_torch(name, _constant_function(name, value))
    for name in _DOING_NOTHING:
        replace_in_torch(name, _doing_nothing(name))
    for name, value in _RAW.items():
        setattr(torch._C, name, _constant_function(name, value))
    if device.vendor == "AMD":
        torch.version.hip, torch.version.cuda = _HIP_VERSION, None
    elif torch.version.cuda is None:
        torch.version.cuda = _CUDA_VERSION
    for name in ("range_push", "range_pop", "range", "mark"):
        setattr(torch.cuda.nvtx, name, type(name, (Nothing,), {}))
    torch.cuda.default_generators = (_Generator("cuda"),)
    torch.Generator = _Generator  # type: ignore[misc]
    guards: Any = torch._C._dynamo.guards
    guards._empty_strided_cuda = _empty_strided_cuda
    update_device_interface()


def _empty_strided_cuda(size: Any, stride: Any, dtype: torch.dtype) -> torch.Tensor:
    """Allocate for programs that Inductor wrote: torch's own skips fake tensors."""
    return torch.empty_strided(size, stride, dtype=dtype, device="cuda")


def update_device_interface() -> None:
    """Let Inductor ask the fakes, if it is loaded: it took functions of `torch.cuda` then."""
    module: Any = sys.modules.get("torch._dynamo.device_interface")
    if module is None:
        return
    interface = module.CudaInterface
    for name, value in [*vars(interface).items()]:
        if isinstance(value, staticmethod) and hasattr(torch.cuda, name):
            setattr(interface, name, staticmethod(getattr(torch.cuda, name)))
    interface.Worker.get_device_properties = staticmethod(torch.cuda.get_device_properties)


def _doing_nothing(name: str) -> type[Nothing]:
    """Return a class of its own; torch._dynamo lists the function that a decorated one wraps."""
    wrapped = getattr(getattr(torch.cuda, name, None), "__wrapped__", None)
    members = {} if wrapped is None else {"__wrapped__": wrapped}
    return type(name, (Nothing,), members)


@functools.cache
def _driver_parts() -> list[ModuleType]:
    """Return the modules below `torch.cuda`: an import names each in the one above.

    To look for them through all modules would copy thousands of pages of memory in a fork.
    """
    parts, pending = [], [torch.cuda]
    while pending:
        whole = pending.pop()
        within = (sys.modules.get(f"{whole.__name__}.{name}") for name in [*vars(whole)])
        modules = [part for part in within if part is not None]
        parts += modules
        pending += modules
    return parts


def replace_in_torch(name: str, fake: Any) -> None:
    """Set `torch.cuda.<name>`, also in those of its submodules that imported it by name."""
    original = getattr(torch.cuda, name, None)
    for module in _driver_parts():
        if getattr(module, name, fake) is original:
            setattr(module, name, fake)
    setattr(torch.cuda, name, fake)


def _constant_function(name: str, value: Any) -> Callable[..., Any]:
    """Return a new function for each name: torch._dynamo refuses to list one object twice."""

    def return_constant(*_: Any, **__: Any) -> Any:
        return value

    return_constant.__name__ = return_constant.__qualname__ = name
    return return_constant


class _Generator(torch.Generator):
    """A CPU generator for any device: fake tensors draw no numbers."""

    asked_for: torch.device

    def __new__(cls, device: Any = "cpu") -> _Generator:
        generator = super().__new__(cls, "cpu")  # type: ignore[call-arg]
        generator.asked_for = torch.device(device)
        return generator

    def __init__(self, device: Any = "cpu") -> None: ...

    @property
    def device(self) -> torch.device:  # type: ignore[override]
        """The device that was asked for."""
        return self.asked_for
