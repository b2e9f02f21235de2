"""The matrix as a list of blocks, whatever their rows; a tile of them a program, or in turn."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.quantise_blocks.problem import BLOCK, SHAPES, check, inputs, reference

__all__ = ["SHAPES", "SPACE", "check", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "TILE": [1, 2, 4, 8, 16, 32, 64],
    "PROGRAMS": [264, 1056, 4224, 1000000],
    "STORE": ["", ".cs"],
    "num_warps": [1, 2, 4, 8],
}


@triton.jit
def quantise_tile_kernel(
    x_ptr, codes_ptr, scale_ptr, blocks, BLOCK: tl.constexpr,
    TILE: tl.constexpr, STORE: tl.constexpr,
):  # fmt: skip
    lanes = tl.arange(0, BLOCK)[None, :]
    for first in range(tl.program_id(0) * TILE, blocks, tl.num_programs(0) * TILE):
        block = first + tl.arange(0, TILE)[:, None]
        offsets = block * BLOCK + lanes
        x = tl.load(x_ptr + offsets, mask=block < blocks, other=0.0).to(tl.float32)
        scale = tl.maximum(tl.max(tl.abs(x), axis=1, keep_dims=True), 1e-12) / 448.0
        codes = (x / scale).to(codes_ptr.dtype.element_ty)
        tl.store(codes_ptr + offsets, codes, mask=block < blocks, cache_modifier=STORE)
        tl.store(scale_ptr + block, scale, mask=block < blocks)


def valid(params, shape):
    """One to 64 elements a thread, and two tiles for each program that loops."""
    held = params["TILE"] * 128 / (32 * params["num_warps"])
    tiles = shape["M"] * shape["N"] / 128 / params["TILE"]
    busy = params["PROGRAMS"] in (264, 1000000) or 2 * params["PROGRAMS"] <= tiles
    return 1 <= held <= 64 and busy


def kernel(x, *, TILE=8, PROGRAMS=1000000, STORE="", num_warps=4):
    M, N = x.shape
    codes = torch.empty((M, N), dtype=torch.float8_e4m3fn, device=x.device)
    scale = torch.empty((M, N // BLOCK), dtype=torch.float32, device=x.device)
    blocks = scale.numel()
    grid = (min(PROGRAMS, triton.cdiv(blocks, TILE)),)
    quantise_tile_kernel[grid](x, codes, scale, blocks, BLOCK, TILE, STORE, num_warps=num_warps)
    return codes, scale
