"""Each program updates a contiguous stretch, block after block, with loads issued ahead."""

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
    "BLOCK": [128, 256, 512, 1024, 2048],
    "STEPS": [1, 2, 4, 8, 16],
    "STAGES": [1, 2, 3],
    "num_warps": [1, 2, 4, 8],
}


@triton.jit
def sgd_stretch_kernel(
    param_ptr, grad_ptr, buffer_ptr, new_param_ptr, new_buffer_ptr, n, lr, momentum, decay,
    BLOCK: tl.constexpr, STEPS: tl.constexpr, STAGES: tl.constexpr,
):  # fmt: skip
    first = tl.program_id(0) * (BLOCK * STEPS)
    for step in tl.range(0, STEPS, num_stages=STAGES):
        i = first + step * BLOCK + tl.arange(0, BLOCK)
        p = tl.load(param_ptr + i, mask=i < n, other=0.0).to(tl.float32)
        g = tl.load(grad_ptr + i, mask=i < n, other=0.0).to(tl.float32)
        b = tl.load(buffer_ptr + i, mask=i < n, other=0.0)
        g = tl.fma(p, decay + tl.zeros_like(p), g)
        b = tl.fma(b, momentum + tl.zeros_like(b), g)
        p = p - lr * (g + momentum * b)
        tl.store(new_param_ptr + i, p.to(new_param_ptr.dtype.element_ty), mask=i < n)
        tl.store(new_buffer_ptr + i, b, mask=i < n)


def valid(params, shape):
    """One to 32 elements a thread; nothing to load ahead beyond the steps."""
    held = params["BLOCK"] / (32 * params["num_warps"])
    return 1 <= held <= 32 and params["STAGES"] <= params["STEPS"]


def kernel(param, grad, buffer, *, BLOCK=512, STEPS=2, STAGES=1, num_warps=4):
    n = param.numel()
    new_param, new_buffer = torch.empty_like(param), torch.empty_like(buffer)
    sgd_stretch_kernel[(triton.cdiv(n, BLOCK * STEPS),)](
        param, grad, buffer, new_param, new_buffer, n, LR, MOMENTUM, DECAY,
        BLOCK, STEPS, STAGES, num_warps=num_warps,
    )  # fmt: skip
    return new_param, new_buffer
