"""No tensor cores: filters in lanes, times in rows, one step a tap and channel."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.conv1d.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "BLOCK_T": [1, 2, 4, 8, 16, 32],
    "BLOCK_K": [32, 64, 128, 256],
    "UNROLL": [1, 2, 4],
    "TIMES_FAST": [False, True],
    "num_warps": [1, 2, 4, 8],
}


@triton.jit
def adding_kernel(
    x_ptr, weight_ptr, out_ptr, T, C, K, R,
    BLOCK_T: tl.constexpr, BLOCK_K: tl.constexpr, UNROLL: tl.constexpr, TIMES_FAST: tl.constexpr,
):  # fmt: skip
    if TIMES_FAST:
        tile_t, tile_k = tl.program_id(0), tl.program_id(1)
    else:
        tile_t, tile_k = tl.program_id(1), tl.program_id(0)
    t = tile_t * BLOCK_T + tl.arange(0, BLOCK_T)
    k = tile_k * BLOCK_K + tl.arange(0, BLOCK_K)
    series = x_ptr + tl.program_id(2) * T * C
    acc = tl.zeros((BLOCK_T, BLOCK_K), dtype=tl.float32)
    for step in tl.range(0, R * C, loop_unroll_factor=UNROLL):
        at = t * C + step - R // 2 * C
        x = tl.load(series + at, mask=(at >= 0) & (at < T * C), other=0.0).to(tl.float32)
        w = tl.load(weight_ptr + step * K + k, mask=k < K, other=0.0).to(tl.float32)
        acc += x[:, None] * w[None, :]
    out = out_ptr + (tl.program_id(2) * T + t[:, None]) * K + k[None, :]
    mask = (t[:, None] < T) & (k[None, :] < K)
    tl.store(out, acc.to(out_ptr.dtype.element_ty), mask=mask)


def valid(params, shape):
    """One to 32 sums a thread; under 3e9 products in all; blocks not far wider than K."""
    t, k = params["BLOCK_T"], params["BLOCK_K"]
    work = shape["B"] * shape["T"] * shape["C"] * shape["K"] * shape["R"]
    return k < 2 * shape["K"] and work < 3e9 and 1 <= t * k / (32 * params["num_warps"]) <= 32


def kernel(x, weight, *, BLOCK_T=16, BLOCK_K=32, UNROLL=2, TIMES_FAST=True, num_warps=2):
    B, T, C = x.shape
    R, _, K = weight.shape
    out = torch.empty((B, T, K), dtype=x.dtype, device=x.device)
    times, blocks = triton.cdiv(T, BLOCK_T), triton.cdiv(K, BLOCK_K)
    grid = (times, blocks, B) if TIMES_FAST else (blocks, times, B)
    adding_kernel[grid](
        x, weight, out, T, C, K, R, BLOCK_T, BLOCK_K, UNROLL, TIMES_FAST, num_warps=num_warps
    )
    return out
