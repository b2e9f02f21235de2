"""Two launches of one strided copy, for the left part and for the right part."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.concatenate.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "ROWS": [1, 2, 4, 8, 16, 32],
    "COLS": [16, 64, 128, 256, 512, 1024],
    "ROWS_FAST": [False, True],
    "POLICY": ["", "evict_first"],
    "num_warps": [1, 2, 4, 8],
}


@triton.jit
def copy_kernel(
    x_ptr, out_ptr, M, N, STRIDE,
    ROWS: tl.constexpr, COLS: tl.constexpr, ROWS_FAST: tl.constexpr, POLICY: tl.constexpr,
):  # fmt: skip
    if ROWS_FAST:
        tile_m, tile_n = tl.program_id(0) % tl.cdiv(M, ROWS), tl.program_id(0) // tl.cdiv(M, ROWS)
    else:
        tile_m, tile_n = tl.program_id(0) // tl.cdiv(N, COLS), tl.program_id(0) % tl.cdiv(N, COLS)
    m = tile_m * ROWS + tl.arange(0, ROWS)[:, None]
    n = tile_n * COLS + tl.arange(0, COLS)[None, :]
    inside = (m < M) & (n < N)
    x = tl.load(x_ptr + m * N + n, mask=inside, eviction_policy=POLICY)
    tl.store(out_ptr + m * STRIDE + n, x, mask=inside, eviction_policy=POLICY)


def valid(params, shape):
    """One to 64 elements a thread; tiles not far larger than the wider matrix."""
    rows, cols = params["ROWS"], params["COLS"]
    fits = rows < 2 * shape["M"] and cols < 2 * max(shape["N1"], shape["N2"])
    return fits and 1 <= rows * cols / (32 * params["num_warps"]) <= 64


def kernel(left, right, *, ROWS=8, COLS=64, ROWS_FAST=False, POLICY="", num_warps=2):
    M, N1, N2 = *left.shape, right.shape[1]
    wide = N1 + N2
    out = torch.empty((M, wide), dtype=left.dtype, device=left.device)
    for part, place in ((left, out), (right, out[:, N1:])):
        N = part.shape[1]
        grid = (triton.cdiv(M, ROWS) * triton.cdiv(N, COLS),)
        copy_kernel[grid](
            part, place, M, N, wide, ROWS, COLS, ROWS_FAST, POLICY, num_warps=num_warps
        )
    return out
