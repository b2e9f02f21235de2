"""A band of points a program, kept whole; centres pass by in blocks, products on tensor cores."""

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
    "BLOCK_N": [32, 64, 128, 256],
    "BLOCK_K": [16, 32, 64, 128],
    "num_warps": [4, 8],
    "num_stages": [1, 2, 3],
}


@triton.jit
def stay_kernel(
    points_ptr, centres_ptr, nearest_ptr, distance_ptr, N, K,
    D: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    n = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    d = tl.arange(0, D)
    point = tl.load(points_ptr + n[:, None] * D + d[None, :], mask=n[:, None] < N, other=0.0)
    best = tl.full((BLOCK_N,), float("inf"), dtype=tl.float32)
    nearest = tl.zeros((BLOCK_N,), dtype=tl.int32)
    for start in range(0, K, BLOCK_K):
        k = start + tl.arange(0, BLOCK_K)
        centre = tl.load(centres_ptr + k[None, :] * D + d[:, None], mask=k[None, :] < K, other=0.0)
        squares = tl.sum(centre.to(tl.float32) * centre.to(tl.float32), axis=0)
        far = tl.where(k < K, squares, float("inf"))
        distance = far[None, :] - 2.0 * tl.dot(point, centre)
        least, place = tl.min(distance, axis=1, return_indices=True)
        nearest = tl.where(least < best, start + place, nearest)
        best = tl.minimum(best, least)
    wide = point.to(tl.float32)
    tl.store(nearest_ptr + n, nearest, mask=n < N)
    tl.store(distance_ptr + n, best + tl.sum(wide * wide, axis=1), mask=n < N)


def valid(params, shape):
    """Points and centres fit in shared memory, distances in registers."""
    n, k = params["BLOCK_N"], params["BLOCK_K"]
    shared = (n + k * params["num_stages"]) * shape["D"] * itemsize(shape)
    held = n * (k + shape["D"] / 2) / (32 * params["num_warps"])
    return shared <= 200 * 1024 and 16 <= held <= 160


def kernel(points, centres, *, BLOCK_N=64, BLOCK_K=64, num_warps=4, num_stages=2):
    (N, D), K = points.shape, centres.shape[0]
    nearest = torch.empty(N, dtype=torch.int32, device=points.device)
    distance = torch.empty(N, dtype=torch.float32, device=points.device)
    stay_kernel[(triton.cdiv(N, BLOCK_N),)](
        points, centres, nearest, distance, N, K, D, BLOCK_N, BLOCK_K,
        num_warps=num_warps, num_stages=num_stages,
    )  # fmt: skip
    return nearest, distance
