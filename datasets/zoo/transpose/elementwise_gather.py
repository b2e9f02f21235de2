"""A flat sweep over the result: every element works out where it comes from by division."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.transpose.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "BLOCK": [128, 256, 512, 1024, 2048, 4096],
    "SCATTER": [False, True],
    "POLICY": ["", "evict_last"],
    "num_warps": [1, 2, 4, 8],
}


@triton.jit
def flat_kernel(
    x_ptr, out_ptr, M, N, BLOCK: tl.constexpr, SCATTER: tl.constexpr, POLICY: tl.constexpr
):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    if SCATTER:  # over x in its own order
        source, target = at, at % N * M + at // N
    else:
        source, target = at % M * N + at // M, at
    x = tl.load(x_ptr + source, mask=at < M * N, eviction_policy=POLICY)
    tl.store(out_ptr + target, x, mask=at < M * N)


def valid(params, shape):
    """One to 64 elements a thread."""
    return 1 <= params["BLOCK"] / (32 * params["num_warps"]) <= 64


def kernel(x, *, BLOCK=512, SCATTER=False, POLICY="evict_last", num_warps=4):
    M, N = x.shape
    out = torch.empty((N, M), dtype=x.dtype, device=x.device)
    grid = (triton.cdiv(M * N, BLOCK),)
    flat_kernel[grid](x, out, M, N, BLOCK, SCATTER, POLICY, num_warps=num_warps)
    return out
