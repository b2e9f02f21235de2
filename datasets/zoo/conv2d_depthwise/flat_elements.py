"""One output an element of a flat block, its place by division, its taps in two rolled loops."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.conv2d_depthwise.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "BLOCK": [128, 256, 512, 1024, 2048],
    "UNROLLED": [False, True],
    "POLICY": ["", "evict_last"],
    "num_warps": [1, 2, 4, 8],
}


@triton.jit
def tap(x_ptr, weight_ptr, at, row, col, c, i, j, H, W, C, inside, POLICY: tl.constexpr):
    y, z = row + i - 1, col + j - 1
    there = inside & (y >= 0) & (y < H) & (z >= 0) & (z < W)
    shift = ((i - 1) * W + j - 1) * C
    x = tl.load(x_ptr + at + shift, mask=there, other=0.0, eviction_policy=POLICY)
    w = tl.load(weight_ptr + (i * 3 + j) * C + c, mask=inside, other=0.0)
    return x.to(tl.float32) * w.to(tl.float32)


@triton.jit
def flat_kernel(
    x_ptr, weight_ptr, out_ptr, H, W, C, total,
    BLOCK: tl.constexpr, UNROLLED: tl.constexpr, POLICY: tl.constexpr,
):  # fmt: skip
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < total
    c, col, row = at % C, at // C % W, at // (C * W) % H
    acc = tl.zeros((BLOCK,), dtype=tl.float32)
    if UNROLLED:
        for i in tl.static_range(3):
            for j in tl.static_range(3):
                acc += tap(x_ptr, weight_ptr, at, row, col, c, i, j, H, W, C, inside, POLICY)
    else:
        for place in range(9):
            i, j = place // 3, place % 3
            acc += tap(x_ptr, weight_ptr, at, row, col, c, i, j, H, W, C, inside, POLICY)
    tl.store(out_ptr + at, acc.to(out_ptr.dtype.element_ty), mask=inside)


def valid(params, shape):
    """One to 16 outputs a thread."""
    return 1 <= params["BLOCK"] / (32 * params["num_warps"]) <= 16


def kernel(x, weight, *, BLOCK=512, UNROLLED=True, POLICY="", num_warps=4):
    _, H, W, C = x.shape
    out = torch.empty_like(x)
    total = x.numel()
    flat_kernel[(triton.cdiv(total, BLOCK),)](
        x, weight, out, H, W, C, total, BLOCK, UNROLLED, POLICY, num_warps=num_warps
    )
    return out
