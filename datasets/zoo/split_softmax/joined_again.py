"""Segments' maxima and sums; each program of the second kernel joins all of its row."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.split_softmax.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "BLOCK": [1024, 2048, 4096],
    "PARTS": [32, 128, 512],
    "STREAMING": [False, True],
    "num_warps": [4, 8],
}


@triton.jit
def segment_kernel(x_ptr, peak_ptr, total_ptr, N, PARTS: tl.constexpr, BLOCK: tl.constexpr):
    row, part = tl.program_id(1), tl.program_id(0)
    x_ptr += row.to(tl.int64) * N
    peak = -1e30
    total = 0.0
    for start in range(part * BLOCK, N, PARTS * BLOCK):
        cols = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + cols, mask=cols < N, other=float("-inf")).to(tl.float32)
        higher = tl.maximum(peak, tl.max(x, axis=0))
        total = total * tl.exp(peak - higher) + tl.sum(tl.exp(x - higher), axis=0)
        peak = higher
    tl.store(peak_ptr + row * PARTS + part, peak)
    tl.store(total_ptr + row * PARTS + part, total)


@triton.jit
def divide_kernel(
    x_ptr, peak_ptr, total_ptr, out_ptr, N,
    PARTS: tl.constexpr, BLOCK: tl.constexpr, STREAMING: tl.constexpr,
):  # fmt: skip
    row, part = tl.program_id(1), tl.program_id(0)
    base = row.to(tl.int64) * N
    others = row * PARTS + tl.arange(0, PARTS)
    peak = tl.load(peak_ptr + others)
    top = tl.max(peak, axis=0)
    scale = 1.0 / tl.sum(tl.load(total_ptr + others) * tl.exp(peak - top), axis=0)
    policy: tl.constexpr = "evict_first" if STREAMING else ""
    for start in range(part * BLOCK, N, PARTS * BLOCK):
        cols = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + base + cols, mask=cols < N, other=0.0).to(tl.float32)
        out = (tl.exp(x - top) * scale).to(out_ptr.dtype.element_ty)
        tl.store(out_ptr + base + cols, out, mask=cols < N, eviction_policy=policy)


def valid(params, shape):
    """Four to 16 elements a thread; a block for every second part at least."""
    each = params["BLOCK"] / (32 * params["num_warps"])
    busy = params["PARTS"] * params["BLOCK"] <= 2 * shape["N"] or params["PARTS"] == 32
    return 4 <= each <= 16 and busy


def kernel(x, *, BLOCK=1024, PARTS=32, STREAMING=True, num_warps=4):
    M, N = x.shape
    out = torch.empty_like(x)
    peak, total = torch.empty((2, M, PARTS), dtype=torch.float32, device=x.device)
    segment_kernel[(PARTS, M)](x, peak, total, N, PARTS, BLOCK, num_warps=num_warps)
    divide_kernel[(PARTS, M)](x, peak, total, out, N, PARTS, BLOCK, STREAMING, num_warps=num_warps)
    return out
