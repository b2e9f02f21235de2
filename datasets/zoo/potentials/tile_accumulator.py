"""A block of bodies a program meets the others block by block; the sums are kept in a tile."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.potentials.problem import SHAPES, SOFTENING, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "BLOCK_M": [16, 32, 64, 128, 256],
    "BLOCK_N": [8, 16, 32, 64, 128, 256],
    "REDUCE": ["end", "each"],
    "num_warps": [1, 2, 4, 8],
}


@triton.jit
def tile_kernel(
    places_ptr, weights_ptr, out_ptr, N,
    AXES: tl.constexpr, SOFTENING: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
    REDUCE: tl.constexpr,
):  # fmt: skip
    m = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    tile = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    line = tl.zeros((BLOCK_M,), dtype=tl.float32)
    for start in range(0, N, BLOCK_N):
        n = start + tl.arange(0, BLOCK_N)
        squares = tl.full((BLOCK_M, BLOCK_N), SOFTENING, tl.float32)
        for axis in tl.static_range(AXES):
            mine = tl.load(places_ptr + axis * N + m, mask=m < N, other=0.0).to(tl.float32)
            other = tl.load(places_ptr + axis * N + n, mask=n < N, other=0.0).to(tl.float32)
            gap = mine[:, None] - other[None, :]
            squares += gap * gap
        weight = tl.load(weights_ptr + n, mask=n < N, other=0.0).to(tl.float32)
        terms = tl.rsqrt(squares) * weight[None, :]
        if REDUCE == "end":
            tile += terms
        else:
            line += tl.sum(terms, axis=1)
    total = tl.sum(tile, axis=1) if REDUCE == "end" else line
    tl.store(out_ptr + m, total / N, mask=m < N)


def valid(params, shape):
    """Two to 64 pairs a thread."""
    return 2 <= params["BLOCK_M"] * params["BLOCK_N"] / (32 * params["num_warps"]) <= 64


def kernel(places, weights, *, BLOCK_M=32, BLOCK_N=64, REDUCE="end", num_warps=4):
    axes, N = places.shape
    out = torch.empty(N, dtype=torch.float32, device=places.device)
    tile_kernel[(triton.cdiv(N, BLOCK_M),)](
        places, weights, out, N, axes, SOFTENING, BLOCK_M, BLOCK_N, REDUCE, num_warps=num_warps
    )
    return out
