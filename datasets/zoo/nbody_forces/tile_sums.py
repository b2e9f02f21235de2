"""Tiles of targets and sources; three tiles of sums, added up over the sources at the end."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.nbody_forces.problem import SHAPES, SOFTENING, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]


SPACE = {
    "BLOCK_M": [16, 32, 64, 128],
    "BLOCK_N": [16, 32, 64, 128],
    "num_warps": [1, 2, 4, 8],
}


@triton.jit
def tile_kernel(
    bodies_ptr, out_ptr, M, N,
    SOFTENING: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    m = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    x = tl.load(bodies_ptr + 4 * m, mask=m < M, other=0.0)[:, None]
    y = tl.load(bodies_ptr + 4 * m + 1, mask=m < M, other=0.0)[:, None]
    z = tl.load(bodies_ptr + 4 * m + 2, mask=m < M, other=0.0)[:, None]
    ax = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    ay = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    az = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for start in range(0, N, BLOCK_N):
        n = start + tl.arange(0, BLOCK_N)
        dx = tl.load(bodies_ptr + 4 * n, mask=n < N, other=0.0)[None, :] - x
        dy = tl.load(bodies_ptr + 4 * n + 1, mask=n < N, other=0.0)[None, :] - y
        dz = tl.load(bodies_ptr + 4 * n + 2, mask=n < N, other=0.0)[None, :] - z
        mass = tl.load(bodies_ptr + 4 * n + 3, mask=n < N, other=0.0)[None, :]
        inverse = tl.rsqrt(dx * dx + dy * dy + dz * dz + SOFTENING)
        weight = mass * inverse * inverse * inverse
        ax += weight * dx
        ay += weight * dy
        az += weight * dz
    to = out_ptr + 3 * m
    tl.store(to, tl.sum(ax, axis=1) / N, mask=m < M)
    tl.store(to + 1, tl.sum(ay, axis=1) / N, mask=m < M)
    tl.store(to + 2, tl.sum(az, axis=1) / N, mask=m < M)


def valid(params, shape):
    """Two to 16 pairs a thread: three sums each."""
    pairs = params["BLOCK_M"] * params["BLOCK_N"]
    return 2 <= pairs / (32 * params["num_warps"]) <= 16


def kernel(bodies, M, N, *, BLOCK_M=32, BLOCK_N=32, num_warps=4):
    out = torch.empty((M, 3), dtype=torch.float32, device=bodies.device)
    tile_kernel[(triton.cdiv(M, BLOCK_M),)](
        bodies, out, M, N, SOFTENING, BLOCK_M, BLOCK_N, num_warps=num_warps
    )
    return out
