"""Rows cut into parts so that few long ones fill the GPU; each part is added with an atomic."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.row_sum.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "SPLIT": [2, 4, 8, 16, 32, 64],
    "BLOCK": [256, 512, 1024, 2048, 4096],
    "STAGES": [1, 3],
    "num_warps": [1, 2, 4, 8],
}


@triton.jit
def row_sum_atomic_kernel(x_ptr, out_ptr, N, length, BLOCK: tl.constexpr, STAGES: tl.constexpr):
    row = tl.program_id(0)
    first = tl.program_id(1) * length
    total = tl.zeros((BLOCK,), dtype=tl.float32)
    for start in tl.range(first, tl.minimum(first + length, N), BLOCK, num_stages=STAGES):
        cols = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + row * N + cols, mask=cols < N, other=0.0)
        total += x.to(tl.float32)
    tl.atomic_add(out_ptr + row, tl.sum(total), sem="relaxed")


def valid(params, shape):
    """One to 64 values a thread; long rows, in parts of half a block at least."""
    held = params["BLOCK"] / (32 * params["num_warps"])
    whole = 2 * shape["N"] >= params["SPLIT"] * params["BLOCK"]
    return 1 <= held <= 64 and whole and shape["N"] >= 2048


def kernel(x, *, SPLIT=2, BLOCK=256, STAGES=1, num_warps=4):
    M, N = x.shape
    out = torch.zeros(M, dtype=torch.float32, device=x.device)
    length = triton.cdiv(triton.cdiv(N, SPLIT), BLOCK) * BLOCK
    row_sum_atomic_kernel[(M, triton.cdiv(N, length))](
        x, out, N, length, BLOCK, STAGES, num_warps=num_warps
    )
    return out
