"""Process-wide settings of torch."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from operator import attrgetter
from typing import Any

import torch
from torch.overrides import _get_current_function_mode_stack
from torch.utils._device import DeviceContext
from torch.utils._python_dispatch import _get_current_dispatch_mode_stack

from solkit.measure.distrust.findings import Finding

__all__ = ["Globals"]

# `fp32_precision`, not `allow_tf32`: the latter raises once the former was set.
_BACKENDS = """
    fp32_precision cuda.matmul.fp32_precision cudnn.conv.fp32_precision cudnn.rnn.fp32_precision
    cudnn.enabled cudnn.benchmark cudnn.deterministic cuda.matmul.allow_fp16_accumulation
    cuda.matmul.allow_fp16_reduced_precision_reduction
    cuda.matmul.allow_bf16_reduced_precision_reduction
""".split()
_FLAGS: Mapping[str, Callable[[], Any]] = {
    **{f"torch.backends.{n}": partial(attrgetter(n), torch.backends) for n in _BACKENDS},
    "flash_sdp_enabled": torch.backends.cuda.flash_sdp_enabled,
    "mem_efficient_sdp_enabled": torch.backends.cuda.mem_efficient_sdp_enabled,
    "math_sdp_enabled": torch.backends.cuda.math_sdp_enabled,
    "cudnn_sdp_enabled": torch.backends.cuda.cudnn_sdp_enabled,
    "deterministic algorithms": torch.are_deterministic_algorithms_enabled,
    "default dtype": torch.get_default_dtype,
    "default device": torch.get_default_device,
    "gradients": torch.is_grad_enabled,
    "inference mode": torch.is_inference_mode_enabled,
    "autocast on the GPU": lambda: torch.is_autocast_enabled("cuda"),
    "autocast on the CPU": lambda: torch.is_autocast_enabled("cpu"),
    "threads": torch.get_num_threads,
    "subnormals kept": lambda: sys.float_info.min / _TWO > 0.0,
}
_TWO = 2.0  # a name, so the quotient is not folded into a constant
_COMPUTE_KEYS = (
    *("CPU", "CUDA", "AutogradCPU", "AutogradCUDA", "AutocastCUDA"),
    *("CompositeImplicitAutograd", "CompositeExplicitAutograd", "BackendSelect", "Autograd"),
)


class Globals:
    """The settings at construction."""

    def __init__(self) -> None:
        self._flags = _flags()
        self._modes = _modes()
        self._overrides = _overrides()

    def findings(self) -> Iterator[Finding]:
        """Yield changed settings; a flag proves nothing: the results it changes are checked."""
        for name, now in _flags().items():
            before = self._flags[name]
            if now != before:
                yield Finding("global flag", f"{name} is now {now}, was {before}", False)
        for mode in _modes()[len(self._modes) :]:
            text = f"{type(mode).__qualname__} was entered and never left: it sees all ops"
            yield Finding("torch mode", text, True)
        for name in sorted(_overrides() - self._overrides):
            yield Finding("dispatcher override", f"the op {name} was given new code", True)


def _flags() -> dict[str, Any]:
    return {name: read() for name, read in _FLAGS.items()}


_function_modes: Callable[[], list[Any]] = _get_current_function_mode_stack


def _modes() -> list[Any]:
    """Return the active modes; `torch.set_default_device` is both a mode and a flag."""
    modes = [*_function_modes(), *_get_current_dispatch_mode_stack()]
    return [mode for mode in modes if not isinstance(mode, DeviceContext)]


def _overrides() -> set[str]:
    """Python implementations registered for torch's own ops on real devices."""
    return {
        name
        for name in torch.library._impls
        if name.startswith("aten/") and name.rpartition("/")[2] in _COMPUTE_KEYS
    }
