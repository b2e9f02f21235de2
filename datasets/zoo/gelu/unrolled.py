"""Several neighbouring blocks a program, all loaded before the first is worked on."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.gelu.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "VECTOR": [4, 8, 16],
    "UNROLL": [1, 2, 4],
    "AHEAD": [True, False],
    "num_warps": [1, 2, 4, 8, 16],
}


@triton.jit
def gelu(x):
    return x * (0.5 + 0.5 * tl.math.erf(x * 0.7071067811865476))


@triton.jit
def gelu_unrolled_kernel(
    x_ptr, out_ptr, n, BLOCK: tl.constexpr, UNROLL: tl.constexpr, AHEAD: tl.constexpr
):
    base = tl.program_id(0).to(tl.int64) * (BLOCK * UNROLL)
    lane = tl.arange(0, BLOCK)
    if AHEAD:  # rows of a tile are the blocks: one load instruction issues them all
        offsets = base + tl.arange(0, UNROLL)[:, None] * BLOCK + lane[None, :]
        x = tl.load(x_ptr + offsets, mask=offsets < n, other=0.0)
        y = gelu(x.to(tl.float32)).to(out_ptr.dtype.element_ty)
        tl.store(out_ptr + offsets, y, mask=offsets < n)
    else:
        for step in tl.static_range(UNROLL):
            offsets = base + step * BLOCK + lane
            x = tl.load(x_ptr + offsets, mask=offsets < n, other=0.0)
            y = gelu(x.to(tl.float32)).to(out_ptr.dtype.element_ty)
            tl.store(out_ptr + offsets, y, mask=offsets < n)


def valid(params, shape):
    """At most 64 elements a thread; with one block the two orders are the same."""
    return params["VECTOR"] * params["UNROLL"] <= 64 and (params["UNROLL"] > 1 or params["AHEAD"])


def kernel(x, *, VECTOR=8, UNROLL=2, AHEAD=True, num_warps=4):
    out = torch.empty_like(x)
    n = x.numel()
    block = VECTOR * 32 * num_warps
    grid = (triton.cdiv(n, block * UNROLL),)
    gelu_unrolled_kernel[grid](x, out, n, block, UNROLL, AHEAD, num_warps=num_warps)
    return out
