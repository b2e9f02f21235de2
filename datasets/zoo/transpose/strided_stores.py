"""A line of one side a program: the other side of memory is walked with a stride (naive).

With LINES = "rows" stores are strided and loads coalesced; with "columns" the other way round.
"""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.transpose.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "BLOCK": [32, 64, 128, 256, 512, 1024],
    "LINES": ["rows", "columns"],
    "CACHE": ["", ".cg"],
    "num_warps": [1, 2, 4, 8],
}


@triton.jit
def line_kernel(
    x_ptr, out_ptr, M, N, BLOCK: tl.constexpr, LINES: tl.constexpr, CACHE: tl.constexpr
):
    if LINES == "rows":
        m = tl.program_id(0)
        n = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
        inside = n < N
    else:
        n = tl.program_id(0)
        m = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
        inside = m < M
    x = tl.load(x_ptr + m * N + n, mask=inside, cache_modifier=CACHE)
    tl.store(out_ptr + n * M + m, x, mask=inside, cache_modifier=CACHE)


def valid(params, shape):
    """One to 32 elements a thread, no block far longer than a line."""
    along = shape["N"] if params["LINES"] == "rows" else shape["M"]
    each = params["BLOCK"] / (32 * params["num_warps"])
    return 1 <= each <= 32 and params["BLOCK"] < 2 * max(along, 32)


def kernel(x, *, BLOCK=32, LINES="columns", CACHE="", num_warps=1):
    M, N = x.shape
    out = torch.empty((N, M), dtype=x.dtype, device=x.device)
    lines, along = (M, N) if LINES == "rows" else (N, M)
    grid = (lines, triton.cdiv(along, BLOCK))
    line_kernel[grid](x, out, M, N, BLOCK, LINES, CACHE, num_warps=num_warps)
    return out
