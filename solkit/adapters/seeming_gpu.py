"""A machine that seems to have a GPU, for code under Triton's interpreter, which runs on the CPU.

Kernel files ask for the GPU's properties when they are imported, assert where their tensors are,
and allocate on ``"cuda"``. `answer_as` answers such questions for the rest of this process, which
must be a throw-away child. Within `SeemingGpu` tensors of the CPU say that they are on the GPU, and
what is meant for the GPU stays on the CPU.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch.overrides import TorchFunctionMode
from triton.runtime.driver import driver as triton_driver

from solkit.adapters.fake_cuda.torch_cuda import fake_torch_cuda
from solkit.adapters.fake_triton import fake_driver
from solkit.core import Device


def answer_as(device: Device) -> None:
    """Answer as on `device` what is asked of `torch.cuda` and of Triton's driver."""
    fake_torch_cuda(device)
    driver: Any = triton_driver
    driver._default = driver._active = fake_driver(device)


class SeemingGpu(TorchFunctionMode):
    """Calls of torch in which CUDA means the CPU, and tensors seem to be on the GPU."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Call `func` on the CPU."""
        if func in _ANSWERS:
            return _ANSWERS[func]
        args = tuple(map(_on_cpu, args))
        if func is torch.Tensor.cuda:
            return args[0]
        return func(*args, **{name: _on_cpu(value) for name, value in (kwargs or {}).items()})


def _getter(name: str) -> Any:
    return getattr(torch.Tensor, name).__get__


_ANSWERS: Mapping[Any, Any] = {
    _getter("is_cuda"): True,
    _getter("is_cpu"): False,
    _getter("device"): torch.device("cuda", 0),
    torch.Tensor.get_device: 0,
}


def _on_cpu(value: Any) -> Any:
    """Return the CPU for a device that is CUDA's, anything else as it is."""
    if isinstance(value, torch.device):
        return torch.device("cpu") if value.type == "cuda" else value
    if isinstance(value, str) and (value == "cuda" or value.startswith("cuda:")):
        return "cpu"
    return value
