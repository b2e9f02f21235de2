"""Log-softmax as two launches: a log-sum-exp for each row, then tiles of differences."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.log_softmax.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "BLOCK": [256, 512, 1024, 2048, 4096],
    "TILE_M": [1, 2, 4, 8],
    "TILE_N": [128, 256, 512, 1024],
    "num_warps": [2, 4, 8],
    "num_stages": [1, 3],
}


@triton.jit
def lse_kernel(x_ptr, lse_ptr, N, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    peak = float("-inf")
    total = 0.0
    for start in range(0, N, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + row.to(tl.int64) * N + cols, mask=cols < N, other=float("-inf"))
        x = x.to(tl.float32)
        higher = tl.maximum(peak, tl.max(x, axis=0))
        total = total * tl.exp(peak - higher) + tl.sum(tl.exp(x - higher), axis=0)
        peak = higher
    tl.store(lse_ptr + row, peak + tl.log(total))


@triton.jit
def subtract_kernel(x_ptr, lse_ptr, out_ptr, M, N, TILE_M: tl.constexpr, TILE_N: tl.constexpr):
    rows = tl.program_id(0) * TILE_M + tl.arange(0, TILE_M)
    cols = tl.program_id(1) * TILE_N + tl.arange(0, TILE_N)
    mask = (rows[:, None] < M) & (cols[None, :] < N)
    at = rows[:, None].to(tl.int64) * N + cols[None, :]
    lse = tl.load(lse_ptr + rows, mask=rows < M)
    out = tl.load(x_ptr + at, mask=mask).to(tl.float32) - lse[:, None]
    tl.store(out_ptr + at, out.to(out_ptr.dtype.element_ty), mask=mask)


def valid(params, shape):
    """One to 32 values a thread in both launches, and no block far longer than a row."""
    threads = 32 * params["num_warps"]
    near = all(params[key] <= 512 or params[key] < 2 * shape["N"] for key in ("BLOCK", "TILE_N"))
    tile = params["TILE_M"] * params["TILE_N"]
    short = shape["N"] <= 512 * params["BLOCK"]  # a longer loop takes milliseconds
    return short and near and 1 <= params["BLOCK"] / threads <= 32 and 1 <= tile / threads <= 32


def kernel(x, *, BLOCK=256, TILE_M=4, TILE_N=256, num_warps=4, num_stages=3):
    M, N = x.shape
    out = torch.empty_like(x)
    lse = torch.empty(M, dtype=torch.float32, device=x.device)
    lse_kernel[(M,)](x, lse, N, BLOCK, num_warps=num_warps, num_stages=num_stages)
    grid = (triton.cdiv(M, TILE_M), triton.cdiv(N, TILE_N))
    subtract_kernel[grid](x, lse, out, M, N, TILE_M, TILE_N, num_warps=num_warps)
    return out
