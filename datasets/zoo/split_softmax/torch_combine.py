"""Segments' maxima and sums; torch.amax, exp and sum join these; a kernel divides."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.split_softmax.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "BLOCK": [1024, 2048, 4096],
    "ROUNDS": [1, 4, 16],
    "LAST_FIRST": [False, True],
    "num_warps": [4, 8],
}


@triton.jit
def segment_kernel(x_ptr, peak_ptr, total_ptr, N, ROUNDS: tl.constexpr, BLOCK: tl.constexpr):
    row, part = tl.program_id(1), tl.program_id(0)
    x_ptr += row.to(tl.int64) * N
    peak = tl.full((BLOCK,), -1e30, tl.float32)
    total = tl.zeros((BLOCK,), dtype=tl.float32)
    for turn in range(ROUNDS):
        cols = (part * ROUNDS + turn) * BLOCK + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + cols, mask=cols < N, other=float("-inf")).to(tl.float32)
        higher = tl.maximum(peak, x)
        total = total * tl.exp(peak - higher) + tl.exp(x - higher)
        peak = higher
    top = tl.max(peak, axis=0)
    place = row * tl.num_programs(0) + part
    tl.store(peak_ptr + place, top)
    tl.store(total_ptr + place, tl.sum(total * tl.exp(peak - top), axis=0))


@triton.jit
def divide_kernel(
    x_ptr, top_ptr, whole_ptr, out_ptr, N,
    ROUNDS: tl.constexpr, BLOCK: tl.constexpr, LAST_FIRST: tl.constexpr,
):  # fmt: skip
    row, part = tl.program_id(1), tl.program_id(0)
    if LAST_FIRST:  # what was read last may still be in L2
        row, part = tl.num_programs(1) - 1 - row, tl.num_programs(0) - 1 - part
    base = row.to(tl.int64) * N
    top = tl.load(top_ptr + row)
    scale = 1.0 / tl.load(whole_ptr + row)
    for turn in range(ROUNDS):
        cols = (part * ROUNDS + turn) * BLOCK + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + base + cols, mask=cols < N, other=0.0).to(tl.float32)
        out = (tl.exp(x - top) * scale).to(out_ptr.dtype.element_ty)
        tl.store(out_ptr + base + cols, out, mask=cols < N)


def valid(params, shape):
    """Four to 16 elements a thread; a program for every second multiprocessor."""
    each = params["BLOCK"] / (32 * params["num_warps"])
    programs = shape["M"] * shape["N"] / (params["BLOCK"] * params["ROUNDS"])
    return 4 <= each <= 16 and (programs >= 64 or params["ROUNDS"] == 1)


def kernel(x, *, BLOCK=2048, ROUNDS=4, LAST_FIRST=True, num_warps=8):
    M, N = x.shape
    out = torch.empty_like(x)
    grid = (triton.cdiv(N, BLOCK * ROUNDS), M)
    peak, total = torch.empty((2, M, grid[0]), dtype=torch.float32, device=x.device)
    segment_kernel[grid](x, peak, total, N, ROUNDS, BLOCK, num_warps=num_warps)
    top = torch.amax(peak, dim=1, keepdim=True)
    whole = torch.sum(total * torch.exp(peak - top), dim=1)
    divide_kernel[grid](x, top, whole, out, N, ROUNDS, BLOCK, LAST_FIRST, num_warps=num_warps)
    return out
