"""The device guard, without which no tensor may be on ``cuda``; the fallback is the CPU."""

# mypy: disable-error-code="no-untyped-call"
# (much of torch's inside is untyped)

from __future__ import annotations

import ctypes
from pathlib import Path
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_map

# c10/core/DeviceType.h: the order of the enum is part of torch's serialised formats
_CUDA, _LAZY, _DEVICE_TYPES = 1, 17, 22
_REGISTRY = "_ZN3c104impl26device_guard_impl_registryE"


def ensure_guard() -> None:
    """Give the CUDA device type a no-op guard, if torch's internals are as expected.

    `torch._C._ensureCUDADeviceGuardSet` only replaces a guard that counts no devices. A CPU build
    has no guard, and a fork of a process that found a GPU has one that counts it. So the Lazy
    backend's guard, which counts no devices, is set first
    (c10/core/impl/DeviceGuardImplInterface.h).
    """
    try:
        c10 = ctypes.CDLL(str(Path(torch.__file__).parent / "lib" / "libc10.so"))
        registry = (ctypes.c_void_p * _DEVICE_TYPES).in_dll(c10, _REGISTRY)
    except (OSError, ValueError):  # no such library or symbol: `guard_works` is then false
        return
    if registry[_LAZY] is not None:
        registry[_CUDA] = registry[_LAZY]
    torch._C._ensureCUDADeviceGuardSet()


def guard_works() -> bool:
    """Tell whether fake tensors may be on ``cuda``: without a guard, a copy fails."""
    try:
        with FakeTensorMode():
            torch.empty(2, device="cuda").copy_(torch.empty(2))
    except (RuntimeError, AssertionError):
        return False
    return True


class CudaAsCpu(TorchFunctionMode):
    """The fallback: ``cuda`` in any device argument becomes ``cpu``."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is torch.Tensor.cuda:
            return args[0]
        rewritten = tree_map(_cpu_argument, (args, dict(kwargs or {})))
        return func(*rewritten[0], **rewritten[1])


class NumbersAsCuda(TorchFunctionMode):
    """A device's number means ``cuda``: a build of torch without an accelerator refuses it."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        named = dict(kwargs or {})
        if type(named.get("device")) is int:
            named["device"] = torch.device("cuda", named["device"])
        if func in _TO_DEVICE and len(args) > 1 and type(args[1]) is int:
            args = (args[0], torch.device("cuda", args[1]), *args[2:])
        return func(*args, **named)


_TO_DEVICE = (torch.Tensor.to, torch.Tensor.cuda)


def knows_numbers() -> bool:
    """Tell whether torch takes a number for a device."""
    try:
        torch.device(0)
    except RuntimeError:
        return False
    return True


def _cpu_argument(argument: Any) -> Any:
    if isinstance(argument, torch.device) and argument.type == "cuda":
        return torch.device("cpu")
    if isinstance(argument, str) and argument.split(":")[0] == "cuda":
        return "cpu"
    return argument
