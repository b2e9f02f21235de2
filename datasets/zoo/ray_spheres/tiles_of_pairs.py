"""Tiles of rays by spheres; the nearest of a tile is found across it at every step."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.ray_spheres.problem import FAR, SHAPES, TOLERANCE, check, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "check", "inputs", "kernel", "reference", "valid"]


SPACE = {
    "BLOCK_N": [16, 32, 64, 128],
    "BLOCK_S": [8, 16, 32, 64],
    "num_warps": [1, 2, 4, 8],
}


@triton.jit
def pairs_kernel(
    rays_ptr, spheres_ptr, way_ptr, which_ptr, N, S,
    FAR: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_S: tl.constexpr,
):  # fmt: skip
    at = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    x = tl.load(rays_ptr + at, mask=at < N, other=0.0)[:, None]
    y = tl.load(rays_ptr + N + at, mask=at < N, other=0.0)[:, None]
    z = tl.load(rays_ptr + 2 * N + at, mask=at < N, other=0.0)[:, None]
    best = tl.full((BLOCK_N,), FAR, dtype=tl.float32)
    which = tl.full((BLOCK_N,), -1, dtype=tl.int32)
    for start in range(0, S, BLOCK_S):
        s = start + tl.arange(0, BLOCK_S)
        a = tl.load(spheres_ptr + 4 * s, mask=s < S, other=FAR)
        b = tl.load(spheres_ptr + 4 * s + 1, mask=s < S, other=0.0)
        c = tl.load(spheres_ptr + 4 * s + 2, mask=s < S, other=0.0)
        rest = a * a + b * b + c * c - tl.load(spheres_ptr + 4 * s + 3, mask=s < S, other=0.0)
        along = x * a[None, :] + y * b[None, :] + z * c[None, :]
        inner = along * along - rest[None, :]
        way = along - tl.sqrt(tl.maximum(inner, 0.0))
        hit = (inner >= 0) & (way > 0) & (s[None, :] < S)
        nearest, place = tl.min(tl.where(hit, way, FAR), axis=1, return_indices=True)
        which = tl.where(nearest < best, start + place, which)
        best = tl.minimum(best, nearest)
    tl.store(way_ptr + at, best, mask=at < N)
    tl.store(which_ptr + at, which, mask=at < N)


def valid(params, shape):
    """Two to 16 pairs a thread."""
    return 2 <= params["BLOCK_N"] * params["BLOCK_S"] / (32 * params["num_warps"]) <= 16


def kernel(rays, spheres, *, BLOCK_N=64, BLOCK_S=16, num_warps=4):
    N, S = rays.shape[1], spheres.shape[0]
    way = torch.empty(N, dtype=torch.float32, device=rays.device)
    which = torch.empty(N, dtype=torch.int32, device=rays.device)
    pairs_kernel[(triton.cdiv(N, BLOCK_N),)](
        rays, spheres, way, which, N, S, FAR, BLOCK_N, BLOCK_S, num_warps=num_warps
    )
    return way, which
