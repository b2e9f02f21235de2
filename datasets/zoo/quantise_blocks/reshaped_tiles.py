"""Tiles of rows and several blocks; the tile is reshaped to three axes and the last one reduced."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.quantise_blocks.problem import BLOCK, SHAPES, check, inputs, reference

__all__ = ["SHAPES", "SPACE", "check", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "ROWS": [1, 2, 4, 8, 16, 32],
    "BLOCKS": [1, 2, 4, 8, 16],
    "RECIPROCAL": [True, False],
    "num_warps": [1, 2, 4, 8],
}


@triton.jit
def quantise_reshape_kernel(
    x_ptr, codes_ptr, scale_ptr, M, N, BLOCK: tl.constexpr,
    ROWS: tl.constexpr, BLOCKS: tl.constexpr, RECIPROCAL: tl.constexpr,
):  # fmt: skip
    rows = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    cols = tl.program_id(1) * (BLOCKS * BLOCK) + tl.arange(0, BLOCKS * BLOCK)
    offsets = rows[:, None] * N + cols[None, :]
    inside = (rows[:, None] < M) & (cols[None, :] < N)
    x = tl.load(x_ptr + offsets, mask=inside, other=0.0).to(tl.float32)
    parts = tl.reshape(x, (ROWS, BLOCKS, BLOCK))
    largest = tl.maximum(tl.max(tl.abs(parts), axis=2), 1e-12)
    if RECIPROCAL:
        parts = parts * (448.0 / largest)[:, :, None]
    else:
        parts = parts / (largest / 448.0)[:, :, None]
    codes = tl.reshape(parts, (ROWS, BLOCKS * BLOCK)).to(codes_ptr.dtype.element_ty)
    tl.store(codes_ptr + offsets, codes, mask=inside)
    block = tl.program_id(1) * BLOCKS + tl.arange(0, BLOCKS)
    inside = (rows[:, None] < M) & (block[None, :] < N // BLOCK)
    place = rows[:, None] * (N // BLOCK) + block[None, :]
    tl.store(scale_ptr + place, largest / 448.0, mask=inside)


def valid(params, shape):
    """Two to 64 elements a thread, no tile far wider than a row."""
    held = params["ROWS"] * params["BLOCKS"] * 128 / (32 * params["num_warps"])
    return 2 <= held <= 64 and params["BLOCKS"] * 128 < 2 * shape["N"]


def kernel(x, *, ROWS=8, BLOCKS=1, RECIPROCAL=False, num_warps=4):
    M, N = x.shape
    codes = torch.empty((M, N), dtype=torch.float8_e4m3fn, device=x.device)
    scale = torch.empty((M, N // BLOCK), dtype=torch.float32, device=x.device)
    grid = (triton.cdiv(M, ROWS), triton.cdiv(N // BLOCK, BLOCKS))
    quantise_reshape_kernel[grid](
        x, codes, scale, M, N, BLOCK, ROWS, BLOCKS, RECIPROCAL, num_warps=num_warps
    )
    return codes, scale
