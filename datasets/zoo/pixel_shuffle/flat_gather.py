"""A flat sweep over one side; the place on the other by division, by constants or not."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.pixel_shuffle.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "BLOCK": [128, 256, 512, 1024, 2048, 4096],
    "SCATTER": [False, True],
    "CONSTANT": [False, True],
    "POLICY": ["", "evict_last"],
    "num_warps": [1, 2, 4, 8],
}


@triton.jit
def gather(x_ptr, out_ptr, H, W, R, at, inside, POLICY: tl.constexpr):
    col, row = at % (W * R), at // (W * R) % (H * R)
    plane = at // (W * R) // (H * R)
    source = (((plane * R + row % R) * R + col % R) * H + row // R) * W + col // R
    x = tl.load(x_ptr + source, mask=inside, eviction_policy=POLICY)
    tl.store(out_ptr + at, x, mask=inside)


@triton.jit
def scatter(x_ptr, out_ptr, H, W, R, at, inside, POLICY: tl.constexpr):
    col, row, channel = at % W, at // W % H, at // (W * H)
    plane, i, j = channel // (R * R), channel // R % R, channel % R
    target = ((plane * H + row) * R + i) * (W * R) + col * R + j
    x = tl.load(x_ptr + at, mask=inside, eviction_policy=POLICY)
    tl.store(out_ptr + target, x, mask=inside)


@triton.jit
def runtime_kernel(
    x_ptr, out_ptr, H, W, R, total,
    BLOCK: tl.constexpr, SCATTER: tl.constexpr, POLICY: tl.constexpr,
):  # fmt: skip
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    if SCATTER:
        scatter(x_ptr, out_ptr, H, W, R, at, at < total, POLICY)
    else:
        gather(x_ptr, out_ptr, H, W, R, at, at < total, POLICY)


@triton.jit
def constant_kernel(
    x_ptr, out_ptr, H: tl.constexpr, W: tl.constexpr, R: tl.constexpr, total,
    BLOCK: tl.constexpr, SCATTER: tl.constexpr, POLICY: tl.constexpr,
):  # fmt: skip
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    if SCATTER:
        scatter(x_ptr, out_ptr, H, W, R, at, at < total, POLICY)
    else:
        gather(x_ptr, out_ptr, H, W, R, at, at < total, POLICY)


def valid(params, shape):
    """One to 32 elements a thread."""
    return 1 <= params["BLOCK"] / (32 * params["num_warps"]) <= 32


def kernel(x, factor, *, BLOCK=512, SCATTER=False, CONSTANT=True, POLICY="", num_warps=4):
    B, channels, H, W = x.shape
    C = channels // factor**2
    out = torch.empty((B, C, H * factor, W * factor), dtype=x.dtype, device=x.device)
    chosen = constant_kernel if CONSTANT else runtime_kernel
    chosen[(triton.cdiv(x.numel(), BLOCK),)](
        x, out, H, W, factor, x.numel(), BLOCK, SCATTER, POLICY, num_warps=num_warps
    )
    return out
