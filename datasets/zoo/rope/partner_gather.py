"""The textbook form x * cos + rotated(x) * sin: the rotated half is loaded a second time."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.rope.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]
SPACE = {
    "HEADS": [1, 2, 4, 8, 16, 32],
    "num_warps": [1, 2, 4, 8],
    "CACHE": ["", ".ca", ".cg"],
    "SIGN_BY_WHERE": [False, True],
}


@triton.jit
def partner_kernel(
    x_ptr, cos_ptr, sin_ptr, out_ptr, H,
    D: tl.constexpr, HEADS: tl.constexpr, CACHE: tl.constexpr, SIGN_BY_WHERE: tl.constexpr,
):  # fmt: skip
    token = tl.program_id(1)
    heads = tl.program_id(0) * HEADS + tl.arange(0, HEADS)
    col = tl.arange(0, D)
    partner = (col + D // 2) % D
    base = (token * H + heads[:, None]) * D
    mask = heads[:, None] < H
    x = tl.load(x_ptr + base + col[None, :], mask=mask, other=0.0)
    other = tl.load(x_ptr + base + partner[None, :], mask=mask, other=0.0, cache_modifier=CACHE)
    cos = tl.load(cos_ptr + token * (D // 2) + col % (D // 2))
    sin = tl.load(sin_ptr + token * (D // 2) + col % (D // 2))
    if SIGN_BY_WHERE:
        sin = tl.where(col < D // 2, -sin, sin)
    else:
        sin *= 2.0 * (col // (D // 2)) - 1.0
    out = x.to(tl.float32) * cos[None, :] + other.to(tl.float32) * sin[None, :]
    tl.store(out_ptr + base + col[None, :], out.to(out_ptr.dtype.element_ty), mask=mask)


def valid(params, shape):
    """One to 128 elements a thread; heads at most twice what there are."""
    heads = params["HEADS"]
    return heads < 2 * shape["H"] and 1 <= heads * shape["D"] / (32 * params["num_warps"]) <= 128


def kernel(x, cos, sin, *, HEADS=4, num_warps=1, CACHE="", SIGN_BY_WHERE=True):
    T, H, D = x.shape
    out = torch.empty_like(x)
    partner_kernel[(triton.cdiv(H, HEADS), T)](
        x, cos, sin, out, H, D, HEADS, CACHE, SIGN_BY_WHERE, num_warps=num_warps
    )
    return out
