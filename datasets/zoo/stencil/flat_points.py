"""Points in one long row: sides by the remainder, above and below by the row length."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.stencil.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "BLOCK": [128, 256, 512, 1024, 2048, 4096],
    "POLICY": ["", "evict_last"],
    "WEIGHTS_LAST": [False, True],
    "num_warps": [1, 2, 4, 8],
}


@triton.jit
def flat_kernel(
    x_ptr, out_ptr, N, total,
    BLOCK: tl.constexpr, POLICY: tl.constexpr, WEIGHTS_LAST: tl.constexpr,
):  # fmt: skip
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    n = i % N
    mid = tl.load(x_ptr + i, mask=i < total, other=0.0, eviction_policy=POLICY)
    up = tl.load(x_ptr + i - N, mask=(i >= N) & (i < total), other=0.0, eviction_policy=POLICY)
    down = tl.load(x_ptr + i + N, mask=i < total - N, other=0.0, eviction_policy=POLICY)
    left = tl.load(x_ptr + i - 1, mask=(n > 0) & (i < total), other=0.0)
    right = tl.load(x_ptr + i + 1, mask=(n < N - 1) & (i < total), other=0.0)
    if WEIGHTS_LAST:
        around = up.to(tl.float32) + down.to(tl.float32) + left.to(tl.float32)
        out = 0.125 * (around + right.to(tl.float32)) + 0.5 * mid.to(tl.float32)
    else:
        out = 0.5 * mid.to(tl.float32)
        out += 0.125 * up.to(tl.float32)
        out += 0.125 * down.to(tl.float32)
        out += 0.125 * left.to(tl.float32)
        out += 0.125 * right.to(tl.float32)
    tl.store(out_ptr + i, out.to(out_ptr.dtype.element_ty), mask=i < total)


def valid(params, shape):
    """One to 32 points a thread."""
    return 1 <= params["BLOCK"] / (32 * params["num_warps"]) <= 32


def kernel(x, *, BLOCK=512, POLICY="", WEIGHTS_LAST=False, num_warps=4):
    M, N = x.shape
    out = torch.empty_like(x)
    grid = (triton.cdiv(M * N, BLOCK),)
    flat_kernel[grid](x, out, N, M * N, BLOCK, POLICY, WEIGHTS_LAST, num_warps=num_warps)
    return out
