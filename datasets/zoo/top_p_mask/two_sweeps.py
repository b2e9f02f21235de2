"""A program a row: chunks are scanned until P is reached; a second sweep scales and zeroes."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.top_p_mask.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "BLOCK": [512, 1024, 2048, 4096],
    "STOP": [False, True],
    "num_warps": [2, 4, 8],
}


@triton.jit
def sweep_kernel(x_ptr, out_ptr, N, p, BLOCK: tl.constexpr, STOP: tl.constexpr):
    x_ptr += tl.program_id(0).to(tl.int64) * N
    out_ptr += tl.program_id(0).to(tl.int64) * N
    i = tl.arange(0, BLOCK)
    carry = 0.0
    kept = 0.0
    count = 0
    for start in range(0, N, BLOCK):
        if not STOP or carry < p:
            x = tl.load(x_ptr + start + i, mask=start + i < N, other=0.0)
            stays = carry + tl.cumsum(x, axis=0) - x < p
            kept += tl.sum(tl.where(stays, x, 0.0), axis=0)
            count += tl.sum((stays & (start + i < N)).to(tl.int32), axis=0)
            carry += tl.sum(x, axis=0)
    for start in range(0, N, BLOCK):
        at = start + i
        x = tl.load(x_ptr + at, mask=at < count, other=0.0)
        tl.store(out_ptr + at, x / kept, mask=at < N)


def valid(params, shape):
    """Four to 32 elements a thread, no chunk far longer than a row."""
    fits = params["BLOCK"] < 2 * max(shape["N"], 512)
    return fits and 4 <= params["BLOCK"] / (32 * params["num_warps"]) <= 32


def kernel(x, p, *, BLOCK=512, STOP=True, num_warps=4):
    M, N = x.shape
    out = torch.empty_like(x)
    sweep_kernel[(M,)](x, out, N, p, BLOCK, STOP, num_warps=num_warps)
    return out
