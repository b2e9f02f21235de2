"""A flat sweep over the result: every element picks one of two masked loads."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.concatenate.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "BLOCK": [128, 256, 512, 1024, 2048, 4096, 8192],
    "ONE_LOAD": [False, True],
    "PROGRAMS": [0, 528, 1056, 2112],
    "num_warps": [1, 2, 4, 8],
}


@triton.jit
def flat_kernel(
    left_ptr, right_ptr, out_ptr, N1, N2, total, BLOCK: tl.constexpr, ONE_LOAD: tl.constexpr
):
    for start in range(tl.program_id(0) * BLOCK, total, tl.num_programs(0) * BLOCK):
        at = start + tl.arange(0, BLOCK)
        row, col = at // (N1 + N2), at % (N1 + N2)
        inside = at < total
        first = col < N1
        if ONE_LOAD:  # the pointer is chosen, not the value
            source = tl.where(first, left_ptr + row * N1 + col, right_ptr + row * N2 + col - N1)
            x = tl.load(source, mask=inside)
        else:
            a = tl.load(left_ptr + row * N1 + col, mask=inside & first, other=0.0)
            b = tl.load(right_ptr + row * N2 + col - N1, mask=inside & (col >= N1), other=0.0)
            x = tl.where(first, a, b)
        tl.store(out_ptr + at, x, mask=inside)


def valid(params, shape):
    """One to 64 elements a thread; PROGRAMS = 0 stands for one a block."""
    return 1 <= params["BLOCK"] / (32 * params["num_warps"]) <= 64


def kernel(left, right, *, BLOCK=1024, ONE_LOAD=False, PROGRAMS=0, num_warps=4):
    M, N1, N2 = *left.shape, right.shape[1]
    out = torch.empty((M, N1 + N2), dtype=left.dtype, device=left.device)
    total = out.numel()
    blocks = triton.cdiv(total, BLOCK)
    grid = (min(PROGRAMS or blocks, blocks),)
    flat_kernel[grid](left, right, out, N1, N2, total, BLOCK, ONE_LOAD, num_warps=num_warps)
    return out
