"""Each lane keeps its own best value and place; one reduction over pairs at the end of a row."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.argmax.problem import SHAPES, inputs, reference

__all__ = ["SHAPES", "SPACE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "ROWS": [1, 2, 4, 8, 16],
    "BLOCK": [64, 128, 256, 512, 1024, 2048],
    "EVICTION": ["", "evict_first"],
    "num_warps": [1, 2, 4, 8],
}


@triton.jit
def better(a, a_place, b, b_place):
    first = (a > b) | ((a == b) & (a_place < b_place))
    return tl.where(first, a, b), tl.where(first, a_place, b_place)


@triton.jit
def argmax_lanes_kernel(
    x_ptr, out_ptr, M, N, ROWS: tl.constexpr, BLOCK: tl.constexpr, EVICTION: tl.constexpr
):
    rows = tl.program_id(0) * ROWS + tl.arange(0, ROWS)[:, None]
    best = tl.full((ROWS, BLOCK), float("-inf"), dtype=tl.float32)
    place = tl.zeros((ROWS, BLOCK), dtype=tl.int32)
    for start in range(0, N, BLOCK):
        cols = start + tl.arange(0, BLOCK)[None, :]
        source = x_ptr + rows * N + cols
        inside = (rows < M) & (cols < N)
        x = tl.load(source, mask=inside, other=float("-inf"), eviction_policy=EVICTION)
        place = tl.where(x > best, cols, place)
        best = tl.maximum(x, best)
    _, place = tl.reduce((best, place), 1, better, keep_dims=True)
    tl.store(out_ptr + rows, place.to(tl.int64), mask=rows < M)


def valid(params, shape):
    """One to 32 pairs a thread, no chunk far longer than a row."""
    held = params["ROWS"] * params["BLOCK"] / (32 * params["num_warps"])
    return 1 <= held <= 32 and params["BLOCK"] < 2 * shape["N"]


def kernel(x, *, ROWS=1, BLOCK=512, EVICTION="", num_warps=4):
    M, N = x.shape
    out = torch.empty(M, dtype=torch.int64, device=x.device)
    argmax_lanes_kernel[(triton.cdiv(M, ROWS),)](
        x, out, M, N, ROWS, BLOCK, EVICTION, num_warps=num_warps
    )
    return out
