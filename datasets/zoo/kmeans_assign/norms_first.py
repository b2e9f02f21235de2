"""Squares of the centres by a kernel of their own; dimensions in blocks, the argmin as one key."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.kmeans_assign.problem import (
    SHAPES,
    TOLERANCE,
    check,
    inputs,
    itemsize,
    reference,
)

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "check", "inputs", "kernel", "reference", "valid"]


SPACE = {
    "BLOCK_N": [64, 128],
    "BLOCK_K": [32, 64, 128],
    "BLOCK_D": [16, 32, 64],
    "num_warps": [4, 8],
    "num_stages": [2, 3],
}


@triton.jit
def squares_kernel(centres_ptr, squares_ptr, D: tl.constexpr):
    row = tl.load(centres_ptr + tl.program_id(0) * D + tl.arange(0, D)).to(tl.float32)
    tl.store(squares_ptr + tl.program_id(0), tl.sum(row * row))


@triton.jit
def keyed_kernel(
    points_ptr, centres_ptr, squares_ptr, nearest_ptr, distance_ptr, N, K,
    D: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, BLOCK_D: tl.constexpr,
):  # fmt: skip
    n = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    own = tl.zeros((BLOCK_N,), dtype=tl.float32)
    for d0 in range(0, D, BLOCK_D):
        at = n[:, None] * D + d0 + tl.arange(0, BLOCK_D)[None, :]
        wide = tl.load(points_ptr + at, mask=n[:, None] < N, other=0.0).to(tl.float32)
        own += tl.sum(wide * wide, axis=1)
    # Distances are not negative, so that their bits order as they do; the centre's number follows.
    best = tl.full((BLOCK_N,), 0x7FFFFFFFFFFFFFFF, dtype=tl.int64)
    for start in range(0, K, BLOCK_K):
        k = start + tl.arange(0, BLOCK_K)
        acc = tl.zeros((BLOCK_N, BLOCK_K), dtype=tl.float32)
        for d0 in range(0, D, BLOCK_D):
            d = d0 + tl.arange(0, BLOCK_D)
            point = tl.load(
                points_ptr + n[:, None] * D + d[None, :], mask=n[:, None] < N, other=0.0
            )
            centre = tl.load(
                centres_ptr + k[None, :] * D + d[:, None], mask=k[None, :] < K, other=0.0
            )
            acc = tl.dot(point, centre, acc)
        squares = tl.load(squares_ptr + k, mask=k < K, other=float("inf"))
        distance = tl.maximum(own[:, None] + squares[None, :] - 2.0 * acc, 0.0)
        key = distance.to(tl.int32, bitcast=True).to(tl.int64) * 4294967296 + k[None, :]
        best = tl.minimum(best, tl.min(key, axis=1))
    tl.store(nearest_ptr + n, best.to(tl.int32), mask=n < N)
    bits = (best >> 32).to(tl.int32)
    tl.store(distance_ptr + n, bits.to(tl.float32, bitcast=True), mask=n < N)


def valid(params, shape):
    """Tiles fit in shared memory and dimensions, distances and keys in registers."""
    n, k, d = params["BLOCK_N"], params["BLOCK_K"], params["BLOCK_D"]
    shared = params["num_stages"] * (n + k) * d * itemsize(shape)
    held = n * k / (32 * params["num_warps"])
    return d <= shape["D"] and shared <= 200 * 1024 and 8 <= held <= 64


def kernel(
    points, centres, *, BLOCK_N=64, BLOCK_K=64, BLOCK_D=16, num_warps=4, num_stages=2
):  # fmt: skip
    (N, D), K = points.shape, centres.shape[0]
    squares = torch.empty(K, dtype=torch.float32, device=points.device)
    nearest = torch.empty(N, dtype=torch.int32, device=points.device)
    distance = torch.empty(N, dtype=torch.float32, device=points.device)
    squares_kernel[(K,)](centres, squares, D, num_warps=1)
    keyed_kernel[(triton.cdiv(N, BLOCK_N),)](
        points, centres, squares, nearest, distance, N, K, D, BLOCK_N, BLOCK_K, BLOCK_D,
        num_warps=num_warps, num_stages=num_stages,
    )  # fmt: skip
    return nearest, distance
