"""Each program has a stretch of its own and adds its sum atomically."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.vector_dot_large.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "BLOCK": [512, 1024, 2048, 4096],
    "ROUNDS": [1, 4, 16, 64],
    "UNROLL": [1, 4],
    "num_warps": [4, 8],
}


@triton.jit
def dot_kernel(
    x_ptr, y_ptr, out_ptr, N, ROUNDS: tl.constexpr, BLOCK: tl.constexpr, UNROLL: tl.constexpr
):
    total = tl.zeros((BLOCK,), dtype=tl.float32)
    for turn in tl.range(ROUNDS, loop_unroll_factor=UNROLL):
        at = (tl.program_id(0) * ROUNDS + turn) * BLOCK + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + at, mask=at < N, other=0.0).to(tl.float32)
        y = tl.load(y_ptr + at, mask=at < N, other=0.0).to(tl.float32)
        total += x * y
    tl.atomic_add(out_ptr, tl.sum(total, axis=0), sem="relaxed")


def valid(params, shape):
    """Two to 16 elements a thread; 64 programs or more; whole unrolled steps."""
    programs = shape["N"] / (params["BLOCK"] * params["ROUNDS"])
    fits = programs >= 64 and params["UNROLL"] <= params["ROUNDS"]
    return fits and 2 <= params["BLOCK"] / (32 * params["num_warps"]) <= 16


def kernel(x, y, *, BLOCK=2048, ROUNDS=4, UNROLL=4, num_warps=8):
    N = x.shape[0]
    out = torch.zeros(1, dtype=torch.float32, device=x.device)
    grid = (triton.cdiv(N, BLOCK * ROUNDS),)
    dot_kernel[grid](x, y, out, N, ROUNDS, BLOCK, UNROLL, num_warps=num_warps)
    return out
