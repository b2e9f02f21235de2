"""`torch.accelerator` with the answers of a machine that has the GPU.

Code that runs on any vendor's GPU asks it, not `torch.cuda`, where its tensors go:
``torch.accelerator.current_accelerator()`` is ``None`` without a GPU, and most of the rest raises.
"""

# mypy: disable-error-code="no-untyped-call"

from __future__ import annotations

from typing import Any

import torch

from solkit.adapters.fake_cuda.torch_cuda import Nothing
from solkit.core import Device

_LIKE_CUDA = """
    device_count is_available get_device_capability current_stream set_stream synchronize
    empty_cache empty_host_cache memory_stats memory_allocated max_memory_allocated memory_reserved
    max_memory_reserved reset_accumulated_memory_stats reset_peak_memory_stats
""".split()
"""Functions that `torch.cuda` has under the same name."""


def fake_accelerator(device: Device) -> None:
    """Let `torch.accelerator` name the fake GPU; `torch.cuda` is faked already."""
    module: Any = getattr(torch, "accelerator", None)
    if module is None:
        return
    answers: dict[str, Any] = {name: getattr(torch.cuda, name, None) for name in _LIKE_CUDA}
    answers |= {
        "current_accelerator": lambda *_, **__: torch.device("cuda"),
        **dict.fromkeys(("current_device_index", "current_device_idx"), lambda: 0),
        **dict.fromkeys(("set_device_index", "set_device_idx"), lambda _: None),
        "device_index": Nothing,
        "get_memory_info": lambda _=None: (device.memory_bytes, device.memory_bytes),
    }
    for name, answer in answers.items():
        if hasattr(module, name) and answer is not None:
            setattr(module, name, answer)
    torch.get_device_module = _device_module  # type: ignore[assignment]


_torch_device_module = torch.get_device_module


def _device_module(device: Any = None) -> Any:
    """`torch.get_device_module`, whose default is the accelerator's."""
    return _torch_device_module("cuda" if device is None else device)
