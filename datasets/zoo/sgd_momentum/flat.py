"""A block a program, with cache hints for what is read and written once."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.sgd_momentum.problem import (
    DECAY,
    LR,
    MOMENTUM,
    SHAPES,
    TOLERANCE,
    inputs,
    reference,
)

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "BLOCK": [128, 256, 512, 1024, 2048, 4096, 8192],
    "LOAD": ["", "evict_first"],
    "STORE": ["", ".cs", ".wt"],
    "num_warps": [1, 2, 4, 8, 16],
}


@triton.jit
def sgd_kernel(
    param_ptr, grad_ptr, buffer_ptr, new_param_ptr, new_buffer_ptr, n,
    LR: tl.constexpr, MOMENTUM: tl.constexpr, DECAY: tl.constexpr,
    BLOCK: tl.constexpr, LOAD: tl.constexpr, STORE: tl.constexpr,
):  # fmt: skip
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = i < n
    p = tl.load(param_ptr + i, mask=inside, eviction_policy=LOAD).to(tl.float32)
    g = tl.load(grad_ptr + i, mask=inside, eviction_policy=LOAD).to(tl.float32) + DECAY * p
    b = MOMENTUM * tl.load(buffer_ptr + i, mask=inside, eviction_policy=LOAD) + g
    p -= LR * (g + MOMENTUM * b)
    tl.store(new_buffer_ptr + i, b, mask=inside, cache_modifier=STORE)
    p = p.to(new_param_ptr.dtype.element_ty)
    tl.store(new_param_ptr + i, p, mask=inside, cache_modifier=STORE)


def valid(params, shape):
    """One to 64 elements a thread."""
    return 1 <= params["BLOCK"] / (32 * params["num_warps"]) <= 64


def kernel(param, grad, buffer, *, BLOCK=1024, LOAD="", STORE="", num_warps=4):
    n = param.numel()
    new_param, new_buffer = torch.empty_like(param), torch.empty_like(buffer)
    sgd_kernel[(triton.cdiv(n, BLOCK),)](
        param, grad, buffer, new_param, new_buffer, n,
        LR, MOMENTUM, DECAY, BLOCK, LOAD, STORE, num_warps=num_warps,
    )  # fmt: skip
    return new_param, new_buffer
