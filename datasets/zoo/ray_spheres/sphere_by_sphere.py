"""A lane a ray; each sphere is read once for all, and a square root is taken for every pair."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.ray_spheres.problem import FAR, SHAPES, TOLERANCE, check, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "check", "inputs", "kernel", "reference", "valid"]


SPACE = {
    "BLOCK": [64, 128, 256, 512, 1024],
    "UNROLL": [1, 2, 4],
    "num_warps": [1, 2, 4, 8],
}


@triton.jit
def lanes_kernel(
    rays_ptr, spheres_ptr, way_ptr, which_ptr, N, S,
    FAR: tl.constexpr, BLOCK: tl.constexpr, UNROLL: tl.constexpr,
):  # fmt: skip
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(rays_ptr + at, mask=at < N, other=0.0)
    y = tl.load(rays_ptr + N + at, mask=at < N, other=0.0)
    z = tl.load(rays_ptr + 2 * N + at, mask=at < N, other=0.0)
    best = tl.full((BLOCK,), FAR, dtype=tl.float32)
    which = tl.full((BLOCK,), -1, dtype=tl.int32)
    for s in tl.range(0, S, loop_unroll_factor=UNROLL):
        a = tl.load(spheres_ptr + 4 * s)
        b = tl.load(spheres_ptr + 4 * s + 1)
        c = tl.load(spheres_ptr + 4 * s + 2)
        rest = a * a + b * b + c * c - tl.load(spheres_ptr + 4 * s + 3)
        along = x * a + y * b + z * c
        inner = along * along - rest
        way = along - tl.sqrt(tl.maximum(inner, 0.0))
        nearer = (inner >= 0) & (way > 0) & (way < best)
        best = tl.where(nearer, way, best)
        which = tl.where(nearer, s, which)
    tl.store(way_ptr + at, best, mask=at < N)
    tl.store(which_ptr + at, which, mask=at < N)


def valid(params, shape):
    """One to eight rays a thread."""
    return 1 <= params["BLOCK"] / (32 * params["num_warps"]) <= 8


def kernel(rays, spheres, *, BLOCK=256, UNROLL=2, num_warps=4):
    N, S = rays.shape[1], spheres.shape[0]
    way = torch.empty(N, dtype=torch.float32, device=rays.device)
    which = torch.empty(N, dtype=torch.int32, device=rays.device)
    lanes_kernel[(triton.cdiv(N, BLOCK),)](
        rays, spheres, way, which, N, S, FAR, BLOCK, UNROLL, num_warps=num_warps
    )
    return way, which
