"""A flat sweep over the result: each output reads its own window, tap by tap."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.max_pool2d.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "BLOCK": [64, 128, 256, 512, 1024, 2048],
    "UNROLLED": [False, True],
    "POLICY": ["", "evict_last"],
    "CACHE": ["", ".cg"],
    "num_warps": [1, 2, 4, 8],
}


@triton.jit
def window_kernel(
    x_ptr, out_ptr, H, W, P, Q, STRIDE, total,
    R: tl.constexpr, BLOCK: tl.constexpr, UNROLLED: tl.constexpr, POLICY: tl.constexpr,
    CACHE: tl.constexpr,
):  # fmt: skip
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < total
    plane = at // (P * Q)
    y0, z0 = at // Q % P * STRIDE - R // 2, at % Q * STRIDE - R // 2
    best = tl.full((BLOCK,), float("-inf"), tl.float32)
    if UNROLLED:
        for i in tl.static_range(R):
            for j in tl.static_range(R):
                y, z = y0 + i, z0 + j
                there = inside & (y >= 0) & (y < H) & (z >= 0) & (z < W)
                x = tl.load(
                    x_ptr + (plane * H + y) * W + z, mask=there, other=float("-inf"),
                    eviction_policy=POLICY, cache_modifier=CACHE,
                )  # fmt: skip
                best = tl.maximum(best, x.to(tl.float32))
    else:
        for tap in range(R * R):
            y, z = y0 + tap // R, z0 + tap % R
            there = inside & (y >= 0) & (y < H) & (z >= 0) & (z < W)
            x = tl.load(
                x_ptr + (plane * H + y) * W + z, mask=there, other=float("-inf"),
                eviction_policy=POLICY, cache_modifier=CACHE,
            )  # fmt: skip
            best = tl.maximum(best, x.to(tl.float32))
    tl.store(out_ptr + at, best.to(out_ptr.dtype.element_ty), mask=inside)


def valid(params, shape):
    """One to 16 outputs a thread."""
    return 1 <= params["BLOCK"] / (32 * params["num_warps"]) <= 16


def kernel(x, window, stride, *, BLOCK=256, UNROLLED=True, POLICY="", CACHE="", num_warps=4):
    C, H, W = x.shape
    P = (H + window // 2 * 2 - window) // stride + 1
    Q = (W + window // 2 * 2 - window) // stride + 1
    out = torch.empty((C, P, Q), dtype=x.dtype, device=x.device)
    total = out.numel()
    window_kernel[(triton.cdiv(total, BLOCK),)](
        x, out, H, W, P, Q, stride, total, window, BLOCK, UNROLLED, POLICY, CACHE,
        num_warps=num_warps,
    )  # fmt: skip
    return out
