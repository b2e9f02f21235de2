"""Softmax as four launches, each with a matrix or a vector in memory between: the naive way."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.softmax.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "BLOCK": [128, 256, 512, 1024, 2048],
    "ELEMENTS": [256, 512, 1024, 2048, 4096],
    "num_warps": [1, 2, 4, 8],
    "num_stages": [1, 3],
}


@triton.jit
def row_max_kernel(x_ptr, peak_ptr, N, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    best = tl.full((BLOCK,), float("-inf"), tl.float32)
    for start in range(0, N, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + row * N + cols, mask=cols < N, other=float("-inf"))
        best = tl.maximum(best, x.to(tl.float32))
    tl.store(peak_ptr + row, tl.max(best, axis=0))


@triton.jit
def exp_kernel(x_ptr, peak_ptr, weight_ptr, size, N, ELEMENTS: tl.constexpr):
    at = tl.program_id(0) * ELEMENTS + tl.arange(0, ELEMENTS)
    x = tl.load(x_ptr + at, mask=at < size).to(tl.float32)
    peak = tl.load(peak_ptr + at // N, mask=at < size)
    tl.store(weight_ptr + at, tl.exp(x - peak), mask=at < size)


@triton.jit
def row_sum_kernel(weight_ptr, total_ptr, N, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    total = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, N, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        total += tl.load(weight_ptr + row * N + cols, mask=cols < N, other=0.0)
    tl.store(total_ptr + row, tl.sum(total, axis=0))


@triton.jit
def divide_kernel(weight_ptr, total_ptr, out_ptr, size, N, ELEMENTS: tl.constexpr):
    at = tl.program_id(0) * ELEMENTS + tl.arange(0, ELEMENTS)
    weight = tl.load(weight_ptr + at, mask=at < size)
    out = weight / tl.load(total_ptr + at // N, mask=at < size)
    tl.store(out_ptr + at, out.to(out_ptr.dtype.element_ty), mask=at < size)


def valid(params, shape):
    """One to 32 values a thread, and no block far longer than a row."""
    threads = 32 * params["num_warps"]
    near = params["BLOCK"] <= 256 or params["BLOCK"] < 2 * shape["N"]
    short = shape["N"] <= 512 * params["BLOCK"]  # a longer loop takes milliseconds
    return short and near and all(1 <= params[key] / threads <= 32 for key in ("BLOCK", "ELEMENTS"))


def kernel(x, *, BLOCK=256, ELEMENTS=1024, num_warps=4, num_stages=3):
    M, N = x.shape
    out = torch.empty_like(x)
    weights = torch.empty((M, N), dtype=torch.float32, device=x.device)
    peaks, totals = torch.empty((2, M), dtype=torch.float32, device=x.device)
    launch = {"num_warps": num_warps, "num_stages": num_stages}
    flat = (triton.cdiv(M * N, ELEMENTS),)
    row_max_kernel[(M,)](x, peaks, N, BLOCK, **launch)
    exp_kernel[flat](x, peaks, weights, M * N, N, ELEMENTS, **launch)
    row_sum_kernel[(M,)](weights, totals, N, BLOCK, **launch)
    divide_kernel[flat](weights, totals, out, M * N, N, ELEMENTS, **launch)
    return out
