"""Each program adds its squares to one number atomically; a tiny kernel takes the root."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.global_norm.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "BLOCK": [512, 1024, 2048, 4096, 8192],
    "BLOCKS": [1, 2, 4, 8, 16, 64],
    "FOLD_LATE": [True, False],
    "num_warps": [1, 2, 4, 8, 16],
}


@triton.jit
def add_squares_kernel(
    x_ptr, total_ptr, n, BLOCK: tl.constexpr, BLOCKS: tl.constexpr, FOLD_LATE: tl.constexpr
):
    first = tl.program_id(0).to(tl.int64) * (BLOCK * BLOCKS)
    squares = tl.zeros((BLOCK,), dtype=tl.float32)
    total = 0.0
    for block in range(BLOCKS):
        i = first + block * BLOCK + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + i, mask=i < n, other=0.0).to(tl.float32)
        if FOLD_LATE:
            squares += x * x
        else:
            total += tl.sum(x * x)
    tl.atomic_add(total_ptr, total + tl.sum(squares), sem="relaxed")


@triton.jit
def root_kernel(total_ptr):
    tl.store(total_ptr, tl.sqrt(tl.load(total_ptr)))


def valid(params, shape):
    """Two to 64 elements a thread; at most 20000 programs, and not fewer than 16."""
    programs = shape["N"] / (params["BLOCK"] * params["BLOCKS"])
    busy = 16 <= programs <= 20000
    return 2 <= params["BLOCK"] / (32 * params["num_warps"]) <= 64 and busy


def kernel(x, *, BLOCK=1024, BLOCKS=4, FOLD_LATE=True, num_warps=4):
    total = torch.zeros(1, dtype=torch.float32, device=x.device)
    n = x.numel()
    grid = (triton.cdiv(n, BLOCK * BLOCKS),)
    add_squares_kernel[grid](x, total, n, BLOCK, BLOCKS, FOLD_LATE, num_warps=num_warps)
    root_kernel[(1,)](total, num_warps=1)
    return total
