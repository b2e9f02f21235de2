"""As an eager framework does it: the buffer in one kernel, the parameter in a second."""

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
    "BLOCK": [256, 512, 1024, 2048],
    "BLOCK_AFTER": [256, 512, 1024, 2048],
    "KEEP": ["", "evict_last"],
    "BACKWARDS": [True, False],
    "num_warps": [1, 2, 4, 8],
}


@triton.jit
def buffer_kernel(
    param_ptr, grad_ptr, buffer_ptr, new_buffer_ptr, n, momentum, decay,
    BLOCK: tl.constexpr, KEEP: tl.constexpr,
):  # fmt: skip
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    p = tl.load(param_ptr + i, mask=i < n, eviction_policy=KEEP).to(tl.float32)
    g = tl.load(grad_ptr + i, mask=i < n, eviction_policy=KEEP).to(tl.float32)
    b = tl.load(buffer_ptr + i, mask=i < n)
    tl.store(new_buffer_ptr + i, momentum * b + g + decay * p, mask=i < n)


@triton.jit
def param_kernel(
    param_ptr, grad_ptr, buffer_ptr, out_ptr, n, lr, momentum, decay,
    BLOCK: tl.constexpr, BACKWARDS: tl.constexpr,
):  # fmt: skip
    # backwards, so that what the first kernel touched last is still in L2
    block = tl.num_programs(0) - 1 - tl.program_id(0) if BACKWARDS else tl.program_id(0)
    i = block * BLOCK + tl.arange(0, BLOCK)
    p = tl.load(param_ptr + i, mask=i < n).to(tl.float32)
    g = tl.load(grad_ptr + i, mask=i < n).to(tl.float32) + decay * p
    b = tl.load(buffer_ptr + i, mask=i < n)
    p -= lr * (g + momentum * b)
    tl.store(out_ptr + i, p.to(out_ptr.dtype.element_ty), mask=i < n)


def valid(params, shape):
    """One to 32 elements a thread in both kernels."""
    threads = 32 * params["num_warps"]
    return all(1 <= params[name] / threads <= 32 for name in ("BLOCK", "BLOCK_AFTER"))


def kernel(
    param, grad, buffer, *, BLOCK=1024, BLOCK_AFTER=1024, KEEP="", BACKWARDS=True, num_warps=4
):  # fmt: skip
    n = param.numel()
    new_param, new_buffer = torch.empty_like(param), torch.empty_like(buffer)
    buffer_kernel[(triton.cdiv(n, BLOCK),)](
        param, grad, buffer, new_buffer, n, MOMENTUM, DECAY, BLOCK, KEEP, num_warps=num_warps
    )
    param_kernel[(triton.cdiv(n, BLOCK_AFTER),)](
        param, grad, new_buffer, new_param, n, LR, MOMENTUM, DECAY, BLOCK_AFTER, BACKWARDS,
        num_warps=num_warps,
    )  # fmt: skip
    return new_param, new_buffer
