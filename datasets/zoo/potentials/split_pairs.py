"""Pairs shared out in two dimensions: sums of stretches in memory, added by a second kernel."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.potentials.problem import SHAPES, SOFTENING, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "BLOCK_M": [16, 32, 64, 128],
    "BLOCK_N": [16, 32, 64, 128],
    "STRETCH": [256, 512, 1024, 2048],
    "num_warps": [1, 2, 4, 8],
}


@triton.jit
def squared_gap(places_ptr, m, n, N):
    a = tl.load(places_ptr + m, mask=m < N, other=0.0).to(tl.float32)
    b = tl.load(places_ptr + n, mask=n < N, other=0.0).to(tl.float32)
    gap = a[:, None] - b[None, :]
    return gap * gap


@triton.jit
def stretch_kernel(
    places_ptr, weights_ptr, part_ptr, N, STRETCH,
    AXES: tl.constexpr, SOFTENING: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    m = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    first = tl.program_id(1) * STRETCH
    total = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for start in range(first, min(first + STRETCH, N), BLOCK_N):
        n = start + tl.arange(0, BLOCK_N)
        squares = squared_gap(places_ptr, m, n, N) + squared_gap(places_ptr + N, m, n, N)
        if AXES == 3:
            squares += squared_gap(places_ptr + 2 * N, m, n, N)
        weight = tl.load(weights_ptr + n, mask=n < N, other=0.0).to(tl.float32)
        total += weight[None, :] * tl.exp2(-0.5 * tl.log2(squares + SOFTENING))
    tl.store(part_ptr + tl.program_id(1) * N + m, tl.sum(total, axis=1), mask=m < N)


@triton.jit
def add_kernel(part_ptr, out_ptr, N, parts, BLOCK: tl.constexpr):
    m = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), dtype=tl.float32)
    for part in range(parts):
        total += tl.load(part_ptr + part * N + m, mask=m < N, other=0.0)
    tl.store(out_ptr + m, total / N, mask=m < N)


def valid(params, shape):
    """Two to 64 pairs a thread; at least two stretches, or the shortest."""
    each = params["BLOCK_M"] * params["BLOCK_N"] / (32 * params["num_warps"])
    return 2 <= each <= 64 and (params["STRETCH"] < shape["N"] or params["STRETCH"] == 256)


def kernel(places, weights, *, BLOCK_M=32, BLOCK_N=32, STRETCH=512, num_warps=4):
    axes, N = places.shape
    parts = triton.cdiv(N, STRETCH)
    part = torch.empty((parts, N), dtype=torch.float32, device=places.device)
    out = torch.empty(N, dtype=torch.float32, device=places.device)
    stretch_kernel[(triton.cdiv(N, BLOCK_M), parts)](
        places, weights, part, N, STRETCH, axes, SOFTENING, BLOCK_M, BLOCK_N, num_warps=num_warps
    )
    add_kernel[(triton.cdiv(N, 128),)](part, out, N, parts, 128, num_warps=4)
    return out
