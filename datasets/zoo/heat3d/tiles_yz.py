"""Tiles of Y and Z that go along X; the three planes' own values stay in registers."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.heat3d.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "HIGH": [1, 2, 4, 8],
    "WIDE": [32, 64, 128, 256],
    "DEEP": [1, 4, 16],
    "num_warps": [1, 2, 4, 8],
}


@triton.jit
def from_side(u_ptr, c_ptr, at, mask, u, c):
    there = tl.load(u_ptr + at, mask=mask, other=0.0).to(tl.float32)
    conducts = tl.load(c_ptr + at, mask=mask, other=0.0).to(tl.float32)
    return tl.where(mask, (conducts + c) * (there - u), 0.0)


@triton.jit
def heat_kernel(
    u_ptr, c_ptr, out_ptr, X, Y, Z, HIGH: tl.constexpr, WIDE: tl.constexpr, DEEP: tl.constexpr
):
    y = tl.program_id(1) * HIGH + tl.arange(0, HIGH)[:, None]
    z = tl.program_id(0) * WIDE + tl.arange(0, WIDE)[None, :]
    inside = (y < Y) & (z < Z)
    first = tl.program_id(2) * DEEP
    plane = Y * Z
    at = first * plane + y * Z + z
    u = tl.load(u_ptr + at, mask=inside, other=0.0).to(tl.float32)
    c = tl.load(c_ptr + at, mask=inside, other=0.0).to(tl.float32)
    before = from_side(u_ptr, c_ptr, at - plane, inside & (first > 0), u, c)
    for x in range(first, min(first + DEEP, X)):
        at = x * plane + y * Z + z
        more = inside & (x < X - 1)
        u_after = tl.load(u_ptr + at + plane, mask=more, other=0.0).to(tl.float32)
        c_after = tl.load(c_ptr + at + plane, mask=more, other=0.0).to(tl.float32)
        after = tl.where(more, (c_after + c) * (u_after - u), 0.0)
        flow = before + after
        flow += from_side(u_ptr, c_ptr, at - Z, inside & (y > 0), u, c)
        flow += from_side(u_ptr, c_ptr, at + Z, inside & (y < Y - 1), u, c)
        flow += from_side(u_ptr, c_ptr, at - 1, inside & (z > 0), u, c)
        flow += from_side(u_ptr, c_ptr, at + 1, inside & (z < Z - 1), u, c)
        tl.store(out_ptr + at, (u + 0.05 * flow).to(out_ptr.dtype.element_ty), mask=inside)
        before = -after
        u = u_after
        c = c_after


def valid(params, shape):
    """One to eight points of a plane a thread; no tile far larger than a plane."""
    held = params["HIGH"] * params["WIDE"] / (32 * params["num_warps"])
    fits = params["WIDE"] < 2 * shape["Z"] and params["HIGH"] < 2 * shape["Y"]
    return 1 <= held <= 8 and fits and params["DEEP"] <= shape["X"]


def kernel(u, c, *, HIGH=4, WIDE=32, DEEP=4, num_warps=2):
    X, Y, Z = u.shape
    out = torch.empty_like(u)
    grid = (triton.cdiv(Z, WIDE), triton.cdiv(Y, HIGH), triton.cdiv(X, DEEP))
    heat_kernel[grid](u, c, out, X, Y, Z, HIGH, WIDE, DEEP, num_warps=num_warps)
    return out
