"""Functions and constants of another module, which recorded kernels use."""

import triton
import triton.language as tl

SHIFT = tl.constexpr(0.5)
KIND = tl.float32


@tl.constexpr
def wider(dtype: tl.dtype) -> tl.dtype:
    return tl.float32 if dtype.is_bf16() else dtype


@triton.jit
def scale(value):
    return value * 3 + SHIFT


@triton.jit
def twice(value):
    return scale(value) + value
