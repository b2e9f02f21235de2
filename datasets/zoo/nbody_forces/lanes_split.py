"""A lane a target, which takes the sources of a share one by one; shares are added atomically."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.nbody_forces.problem import SHAPES, SOFTENING, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]


SPACE = {
    "BLOCK": [64, 128, 256, 512],
    "SPLITS": [1, 4, 16, 64],
    "UNROLL": [1, 4, 8],
    "num_warps": [2, 4, 8],
}


@triton.jit
def lanes_kernel(
    bodies_ptr, out_ptr, M, N, SHARE,
    SOFTENING: tl.constexpr, BLOCK: tl.constexpr, UNROLL: tl.constexpr, ATOMIC: tl.constexpr,
):  # fmt: skip
    m = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(bodies_ptr + 4 * m, mask=m < M, other=0.0)
    y = tl.load(bodies_ptr + 4 * m + 1, mask=m < M, other=0.0)
    z = tl.load(bodies_ptr + 4 * m + 2, mask=m < M, other=0.0)
    ax = tl.zeros((BLOCK,), dtype=tl.float32)
    ay = tl.zeros((BLOCK,), dtype=tl.float32)
    az = tl.zeros((BLOCK,), dtype=tl.float32)
    first = tl.program_id(1) * SHARE
    for n in tl.range(first, min(first + SHARE, N), loop_unroll_factor=UNROLL):
        dx = tl.load(bodies_ptr + 4 * n) - x
        dy = tl.load(bodies_ptr + 4 * n + 1) - y
        dz = tl.load(bodies_ptr + 4 * n + 2) - z
        inverse = tl.rsqrt(dx * dx + dy * dy + dz * dz + SOFTENING)
        weight = tl.load(bodies_ptr + 4 * n + 3) * inverse * inverse * inverse
        ax += weight * dx
        ay += weight * dy
        az += weight * dz
    to = out_ptr + 3 * m
    if ATOMIC:
        tl.atomic_add(to, ax / N, mask=m < M, sem="relaxed")
        tl.atomic_add(to + 1, ay / N, mask=m < M, sem="relaxed")
        tl.atomic_add(to + 2, az / N, mask=m < M, sem="relaxed")
    else:
        tl.store(to, ax / N, mask=m < M)
        tl.store(to + 1, ay / N, mask=m < M)
        tl.store(to + 2, az / N, mask=m < M)


def valid(params, shape):
    """One to four targets a thread; programs enough to fill half the SMs."""
    programs = shape["M"] * params["SPLITS"] // params["BLOCK"]
    return programs >= 64 and 1 <= params["BLOCK"] / (32 * params["num_warps"]) <= 4


def kernel(bodies, M, N, *, BLOCK=128, SPLITS=16, UNROLL=4, num_warps=4):
    make = torch.empty if SPLITS == 1 else torch.zeros
    out = make((M, 3), dtype=torch.float32, device=bodies.device)
    lanes_kernel[(triton.cdiv(M, BLOCK), SPLITS)](
        bodies, out, M, N, triton.cdiv(N, SPLITS), SOFTENING, BLOCK, UNROLL, SPLITS > 1,
        num_warps=num_warps,
    )  # fmt: skip
    return out
