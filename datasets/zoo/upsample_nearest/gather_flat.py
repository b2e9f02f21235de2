"""A flat sweep over the result: each element fetches its source, places by division."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.upsample_nearest.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "BLOCK": [128, 256, 512, 1024, 2048, 4096],
    "CONSTANT": [False, True],
    "STORE": ["", ".cs"],
    "POLICY": ["", "evict_last"],
    "num_warps": [1, 2, 4, 8],
}


@triton.jit
def repeat(
    x_ptr, out_ptr, W, R, total, BLOCK: tl.constexpr, STORE: tl.constexpr, POLICY: tl.constexpr
):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    wide = W * R
    line, col = at // wide, at % wide
    x = tl.load(x_ptr + line // R * W + col // R, mask=at < total, eviction_policy=POLICY)
    tl.store(out_ptr + at, x, mask=at < total, cache_modifier=STORE)


@triton.jit
def sizes_at_launch_kernel(
    x_ptr, out_ptr, W, R, total, BLOCK: tl.constexpr, STORE: tl.constexpr, POLICY: tl.constexpr
):
    repeat(x_ptr, out_ptr, W, R, total, BLOCK, STORE, POLICY)


@triton.jit
def sizes_compiled_kernel(
    x_ptr, out_ptr, W: tl.constexpr, R: tl.constexpr, total,
    BLOCK: tl.constexpr, STORE: tl.constexpr, POLICY: tl.constexpr,
):  # fmt: skip
    repeat(x_ptr, out_ptr, W, R, total, BLOCK, STORE, POLICY)


def valid(params, shape):
    """One to 32 elements a thread."""
    return 1 <= params["BLOCK"] / (32 * params["num_warps"]) <= 32


def kernel(x, factor, *, BLOCK=1024, CONSTANT=True, STORE="", POLICY="", num_warps=4):
    C, H, W = x.shape
    out = torch.empty((C, H * factor, W * factor), dtype=x.dtype, device=x.device)
    chosen = sizes_compiled_kernel if CONSTANT else sizes_at_launch_kernel
    chosen[(triton.cdiv(out.numel(), BLOCK),)](
        x, out, W, factor, out.numel(), BLOCK, STORE, POLICY, num_warps=num_warps
    )
    return out
