"""A program a stretch of groups: pairs are split level by level in registers."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.haar_wavelet.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "BLOCK": [512, 1024, 2048, 4096, 8192],
    "num_warps": [1, 2, 4, 8],
}


@triton.jit
def haar_kernel(x_ptr, out_ptr, N, LEVELS: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64) * N
    first = tl.program_id(1) * BLOCK
    col = first + tl.arange(0, BLOCK)
    means = tl.load(x_ptr + row + col, mask=col < N, other=0.0).to(tl.float32)
    for level in tl.static_range(LEVELS):
        low, high = tl.split(tl.reshape(means, (BLOCK // 2 ** (level + 1), 2)))
        means = (low + high) * 0.7071067811865476
        half = N // 2 ** (level + 1)
        col = first // 2 ** (level + 1) + tl.arange(0, BLOCK // 2 ** (level + 1))
        details = ((low - high) * 0.7071067811865476).to(out_ptr.dtype.element_ty)
        tl.store(out_ptr + row + half + col, details, mask=col < half)
    half = N // 2**LEVELS
    col = first // 2**LEVELS + tl.arange(0, BLOCK // 2**LEVELS)
    tl.store(out_ptr + row + col, means.to(out_ptr.dtype.element_ty), mask=col < half)


def valid(params, shape):
    """Four to 64 elements a thread; none far longer than a row, but for the default."""
    held, block = params["BLOCK"] / (32 * params["num_warps"]), params["BLOCK"]
    fits = block < 2 * shape["N"] or (block, params["num_warps"]) == (1024, 2)
    return 4 <= held <= 64 and fits and 2 ** shape["LEVELS"] <= 512


def kernel(x, levels, *, BLOCK=1024, num_warps=2):
    M, N = x.shape
    out = torch.empty_like(x)
    grid = (M, triton.cdiv(N, BLOCK))
    haar_kernel[grid](x, out, N, levels, BLOCK, num_warps=num_warps)
    return out
