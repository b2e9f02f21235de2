"""The functions that Triton's interpreter lacks and Inductor's kernels call: libdevice, mostly.

Patches are never undone: call it in a throw-away child process with ``TRITON_INTERPRET=1``. Tested
with Triton 3.6 and 3.7.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
import triton.language as tl
from torch._inductor.runtime import triton_helpers
from triton import next_power_of_2
from triton.language.extra import libdevice
from triton.runtime.interpreter import TensorHandle

__all__ = ["install"]

_VALUES: Mapping[str, Callable[..., torch.Tensor]] = {
    **{name: getattr(torch, name) for name in "rsqrt exp exp2 expm1 log1p log2 erf tanh".split()},
    **{name: getattr(torch, name) for name in "sin cos atan2 hypot pow trunc floor ceil".split()},
    **{name: getattr(torch, name) for name in "sqrt log acos asin atan lgamma fmod".split()},
    "nearbyint": torch.round,
    "rint": torch.round,
    "fdiv_rn": torch.div,
    "mul_rn": torch.mul,
}
_TESTS: Mapping[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "isinf": torch.isinf,
    "isnan": torch.isnan,
    "signbit": torch.signbit,
}


def install() -> None:
    """Compute libdevice's floating-point functions with torch in this process."""
    library: Any = libdevice
    for name, function in _VALUES.items():
        setattr(library, name, _elementwise(function, None))
    for name, function in _TESTS.items():
        setattr(library, name, _elementwise(function, tl.int32))
    triton_helpers.constexpr_next_power_of_2 = next_power_of_2


def _elementwise(function: Callable[..., torch.Tensor], result: Any) -> Callable[..., Any]:
    def call(*args: Any) -> Any:
        first = next(arg for arg in args if isinstance(arg, tl.tensor))
        kind = result or first.type.scalar
        values = [torch.from_numpy(np.asarray(_data(arg))) for arg in args]
        dtype = np.int32 if result else first.handle.data.dtype
        data = np.asarray(function(*values).numpy(), dtype)
        whole = tl.block_type(kind, list(data.shape)) if first.type.is_block() else kind
        return tl.tensor(TensorHandle(data, kind), whole)

    return call


def _data(arg: Any) -> Any:
    return arg.handle.data if isinstance(arg, tl.tensor) else getattr(arg, "value", arg)
