"""Each lane owns bodies and walks through the others one by one, whose data all lanes share."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.potentials.problem import SHAPES, SOFTENING, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "BLOCK": [32, 64, 128, 256, 512],
    "UNROLL": [1, 2, 4, 8],
    "SPLITS": [1, 4, 16],
    "ROOT": ["rsqrt", "divide"],
    "num_warps": [1, 2, 4, 8],
}


@triton.jit
def lane_kernel(
    places_ptr, weights_ptr, out_ptr, N, LENGTH,
    AXES: tl.constexpr, SOFTENING: tl.constexpr, BLOCK: tl.constexpr, UNROLL: tl.constexpr,
    ROOT: tl.constexpr, ATOMIC: tl.constexpr,
):  # fmt: skip
    m = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(places_ptr + m, mask=m < N, other=0.0).to(tl.float32)
    y = tl.load(places_ptr + N + m, mask=m < N, other=0.0).to(tl.float32)
    z = tl.zeros((BLOCK,), dtype=tl.float32)
    if AXES == 3:
        z = tl.load(places_ptr + 2 * N + m, mask=m < N, other=0.0).to(tl.float32)
    total = tl.zeros((BLOCK,), dtype=tl.float32)
    first = tl.program_id(1) * LENGTH
    for n in tl.range(first, min(first + LENGTH, N), loop_unroll_factor=UNROLL):
        dx = x - tl.load(places_ptr + n).to(tl.float32)
        dy = y - tl.load(places_ptr + N + n).to(tl.float32)
        squares = dx * dx + dy * dy + SOFTENING
        if AXES == 3:
            dz = z - tl.load(places_ptr + 2 * N + n).to(tl.float32)
            squares += dz * dz
        weight = tl.load(weights_ptr + n).to(tl.float32)
        if ROOT == "rsqrt":
            total += weight * tl.rsqrt(squares)
        else:
            total += weight / tl.sqrt(squares)
    if ATOMIC:
        tl.atomic_add(out_ptr + m, total / N, mask=m < N, sem="relaxed")
    else:
        tl.store(out_ptr + m, total / N, mask=m < N)


def valid(params, shape):
    """One to 8 bodies a thread."""
    return 1 <= params["BLOCK"] / (32 * params["num_warps"]) <= 8


def kernel(
    places, weights, *, BLOCK=128, UNROLL=4, SPLITS=4, ROOT="rsqrt", num_warps=4
):  # fmt: skip
    axes, N = places.shape
    make = torch.empty if SPLITS == 1 else torch.zeros
    out = make(N, dtype=torch.float32, device=places.device)
    grid = (triton.cdiv(N, BLOCK), SPLITS)
    lane_kernel[grid](
        places, weights, out, N, triton.cdiv(N, SPLITS),
        axes, SOFTENING, BLOCK, UNROLL, ROOT, SPLITS > 1, num_warps=num_warps,
    )  # fmt: skip
    return out
