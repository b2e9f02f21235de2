"""RMS normalisation as two launches: each row's scale to memory, then a map over flat elements."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.rms_norm.problem import EPS, SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "BLOCK": [128, 256, 512, 1024, 2048],
    "ELEMENTS": [256, 512, 1024, 2048, 4096],
    "num_warps": [1, 2, 4, 8],
    "map_warps": [2, 4, 8],
    "num_stages": [1, 3],
}


@triton.jit
def scale_kernel(x_ptr, scale_ptr, N, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    total = tl.zeros((BLOCK,), dtype=tl.float32)
    for start in range(0, N, BLOCK):
        at = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + row.to(tl.int64) * N + at, mask=at < N, other=0.0).to(tl.float32)
        total += x * x
    tl.store(scale_ptr + row, tl.rsqrt(tl.sum(total, axis=0) / N + eps))


@triton.jit
def map_kernel(x_ptr, scale_ptr, weight_ptr, out_ptr, size, N, ELEMENTS: tl.constexpr):
    at = tl.program_id(0) * ELEMENTS + tl.arange(0, ELEMENTS)
    inside = at < size
    x = tl.load(x_ptr + at, mask=inside).to(tl.float32)
    scale = tl.load(scale_ptr + at // N, mask=inside)
    weight = tl.load(weight_ptr + at % N, mask=inside).to(tl.float32)
    tl.store(out_ptr + at, (x * scale * weight).to(out_ptr.dtype.element_ty), mask=inside)


def valid(params, shape):
    """One to 32 values a thread in both launches, and no block far longer than a row."""
    first = params["BLOCK"] / (32 * params["num_warps"])
    second = params["ELEMENTS"] / (32 * params["map_warps"])
    near = params["BLOCK"] <= 512 or params["BLOCK"] < 2 * shape["N"]
    return near and 1 <= first <= 32 and 2 <= second <= 32


def kernel(x, weight, *, BLOCK=512, ELEMENTS=1024, num_warps=4, map_warps=4, num_stages=3):
    M, N = x.shape
    out = torch.empty_like(x)
    scale = torch.empty(M, dtype=torch.float32, device=x.device)
    scale_kernel[(M,)](x, scale, N, EPS, BLOCK, num_warps=num_warps, num_stages=num_stages)
    grid = (triton.cdiv(M * N, ELEMENTS),)
    map_kernel[grid](x, scale, weight, out, M * N, N, ELEMENTS, num_warps=map_warps)
    return out
