"""A block a program; the hyperparameters are constants of the kernel, so they are compiled in."""

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
    "BLOCK": [128, 256, 512, 1024, 2048, 4096],
    "GRAD_EVICTION": ["", "evict_first"],
    "STORE": ["", ".cs"],
    "num_warps": [1, 2, 4, 8, 16],
}


@triton.jit
def adam_flat_kernel(
    param_ptr, grad_ptr, first_ptr, second_ptr, n,
    LR: tl.constexpr, BETA1: tl.constexpr, BETA2: tl.constexpr,
    EPSILON: tl.constexpr, DECAY: tl.constexpr, STEP: tl.constexpr,
    BLOCK: tl.constexpr, GRAD_EVICTION: tl.constexpr, STORE: tl.constexpr,
):  # fmt: skip
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = i < n
    p = tl.load(param_ptr + i, mask=inside).to(tl.float32)
    g = tl.load(grad_ptr + i, mask=inside, eviction_policy=GRAD_EVICTION).to(tl.float32)
    m = tl.load(first_ptr + i, mask=inside)
    v = tl.load(second_ptr + i, mask=inside)
    m = BETA1 * m + (1 - BETA1) * g
    v = BETA2 * v + (1 - BETA2) * g * g
    root = tl.sqrt(v * (1 / (1 - BETA2**STEP))) + EPSILON
    p = p * (1 - LR * DECAY) - (LR / (1 - BETA1**STEP)) * m / root
    tl.store(param_ptr + i, p.to(param_ptr.dtype.element_ty), mask=inside, cache_modifier=STORE)
    tl.store(first_ptr + i, m, mask=inside, cache_modifier=STORE)
    tl.store(second_ptr + i, v, mask=inside, cache_modifier=STORE)


def valid(params, shape):
    """One to 32 elements a thread, each of four tensors."""
    return 1 <= params["BLOCK"] / (32 * params["num_warps"]) <= 32


def kernel(
    param, grad, first, second, *, BLOCK=1024, GRAD_EVICTION="", STORE="", num_warps=4
):  # fmt: skip
    n = param.numel()
    adam_flat_kernel[(triton.cdiv(n, BLOCK),)](
        param, grad, first, second, n, LR, BETA1, BETA2, EPSILON, DECAY, STEP,
        BLOCK, GRAD_EVICTION, STORE, num_warps=num_warps,
    )  # fmt: skip
