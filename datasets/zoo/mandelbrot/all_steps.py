"""Every point takes all the steps, whether it has left or not: no branches at all."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.mandelbrot.problem import SHAPES, TOLERANCE, check, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "check", "inputs", "kernel", "reference", "valid"]


SPACE = {
    "BLOCK": [64, 128, 256, 512, 1024],
    "UNROLL": [1, 2, 4, 8],
    "num_warps": [1, 2, 4, 8],
}


@triton.jit
def steps_kernel(
    real_ptr, imaginary_ptr, out_ptr, W, H, steps, BLOCK: tl.constexpr, UNROLL: tl.constexpr
):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < W * H
    a = tl.load(real_ptr + at % W, mask=inside, other=0.0)
    b = tl.load(imaginary_ptr + at // W, mask=inside, other=0.0)
    x = tl.zeros((BLOCK,), dtype=tl.float32)
    y = tl.zeros((BLOCK,), dtype=tl.float32)
    xx = tl.zeros((BLOCK,), dtype=tl.float32)
    yy = tl.zeros((BLOCK,), dtype=tl.float32)
    count = tl.zeros((BLOCK,), dtype=tl.int32)
    for _ in tl.range(0, steps, loop_unroll_factor=UNROLL):
        y = (x + x) * y + b
        x = xx - yy + a
        xx = x * x
        yy = y * y
        count += tl.where(xx + yy <= 4.0, 1, 0)
    tl.store(out_ptr + at, count, mask=inside)


def valid(params, shape):
    """One to 8 points a thread."""
    return 1 <= params["BLOCK"] / (32 * params["num_warps"]) <= 8


def kernel(real, imaginary, steps, *, BLOCK=256, UNROLL=4, num_warps=4):
    W, H = real.numel(), imaginary.numel()
    out = torch.empty((H, W), dtype=torch.int32, device=real.device)
    steps_kernel[(triton.cdiv(W * H, BLOCK),)](
        real, imaginary, out, W, H, steps, BLOCK, UNROLL, num_warps=num_warps
    )
    return out
