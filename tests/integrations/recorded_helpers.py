"""Functions and constants of another module, which recorded kernels use."""

import triton
import triton.language as tl

SHIFT = tl.constexpr(0.5)
KIND = tl.float32


@triton.jit
def scale(value):
    return value * 3 + SHIFT


@triton.jit
def twice(value):
    return scale(value) + value
