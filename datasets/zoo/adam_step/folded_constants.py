"""Corrections folded into one step size and one epsilon; a reciprocal root in place of a division.

lr/c1 · m / (√(v/c2) + ε) = lr √c2/c1 · m / (√v + ε √c2), and √v + ε' is taken for √(v + ε'²),
which differs by far less than the tolerance while v is not near zero.
"""

import math

import triton
import triton.language as tl

from solkit.datasets.zoo.adam_step.problem import (
    BETA1,
    BETA2,
    DECAY,
    EPSILON,
    LR,
    OUTPUTS,
    SHAPES,
    STEP,
    TOLERANCE,
    inputs,
    reference,
)

__all__ = ["OUTPUTS", "SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "VECTOR": [1, 2, 4, 8, 16],
    "BLOCKS": [1, 2, 4],
    "RSQRT": [True, False],
    "num_warps": [1, 2, 4, 8],
}


@triton.jit
def adam_folded_kernel(
    param_ptr, grad_ptr, first_ptr, second_ptr, n, size, epsilon, keep, beta1, beta2,
    BLOCK: tl.constexpr, BLOCKS: tl.constexpr, RSQRT: tl.constexpr,
):  # fmt: skip
    first_block = tl.program_id(0) * BLOCKS
    for block in tl.static_range(BLOCKS):
        i = (first_block + block) * BLOCK + tl.arange(0, BLOCK)
        inside = i < n
        g = tl.load(grad_ptr + i, mask=inside, other=0.0).to(tl.float32)
        m = tl.load(first_ptr + i, mask=inside, other=0.0)
        v = tl.load(second_ptr + i, mask=inside, other=1.0)
        m = tl.fma(m, beta1, g - g * beta1)
        v = tl.fma(v, beta2, g * g * (1.0 - beta2))
        root = tl.rsqrt(v + epsilon * epsilon) if RSQRT else tl.fdiv(1.0, tl.sqrt(v) + epsilon)
        step = m * root
        p = tl.load(param_ptr + i, mask=inside, other=0.0).to(tl.float32)
        p = keep * p - size * step
        tl.store(first_ptr + i, m, mask=inside)
        tl.store(second_ptr + i, v, mask=inside)
        tl.store(param_ptr + i, p.to(param_ptr.dtype.element_ty), mask=inside)


def valid(params, shape):
    """At most 32 elements a thread in all."""
    return params["VECTOR"] * params["BLOCKS"] <= 32


def kernel(
    param, grad, first, second, *, VECTOR=4, BLOCKS=1, RSQRT=True, num_warps=4
):  # fmt: skip
    n = param.numel()
    block = VECTOR * 32 * num_warps
    root = math.sqrt(1 - BETA2**STEP)
    adam_folded_kernel[(triton.cdiv(n, block * BLOCKS),)](
        param, grad, first, second, n, LR * root / (1 - BETA1**STEP), EPSILON * root,
        1 - LR * DECAY, BETA1, BETA2, block, BLOCKS, RSQRT, num_warps=num_warps,
    )  # fmt: skip
