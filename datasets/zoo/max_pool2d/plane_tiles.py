"""A rectangle of one plane's outputs a program; planes in the grid, the window unrolled."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.max_pool2d.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "BLOCK_H": [1, 2, 4, 8, 16],
    "BLOCK_W": [8, 16, 32, 64, 128, 256],
    "PLANES": [1, 2, 4],
    "num_warps": [1, 2, 4, 8],
}


@triton.jit
def rectangle_kernel(
    x_ptr, out_ptr, C, H, W, P, Q, STRIDE,
    R: tl.constexpr, BLOCK_H: tl.constexpr, BLOCK_W: tl.constexpr, PLANES: tl.constexpr,
):  # fmt: skip
    tiles = tl.cdiv(Q, BLOCK_W)
    p = tl.program_id(1) // tiles * BLOCK_H + tl.arange(0, BLOCK_H)[:, None]
    q = tl.program_id(1) % tiles * BLOCK_W + tl.arange(0, BLOCK_W)[None, :]
    for turn in range(PLANES):
        plane = tl.program_id(0) * PLANES + turn
        inside = (p < P) & (q < Q) & (plane < C)
        best = tl.full((BLOCK_H, BLOCK_W), float("-inf"), tl.float32)
        for i in tl.static_range(R):
            y = p * STRIDE + i - R // 2
            for j in tl.static_range(R):
                z = q * STRIDE + j - R // 2
                there = inside & (y >= 0) & (y < H) & (z >= 0) & (z < W)
                source = x_ptr + (plane * H + y) * W + z
                x = tl.load(source, mask=there, other=float("-inf"))
                best = tl.maximum(best, x.to(tl.float32))
        out = out_ptr + (plane * P + p) * Q + q
        tl.store(out, best.to(out_ptr.dtype.element_ty), mask=inside)


def valid(params, shape):
    """One to 16 outputs a thread; rectangles not far larger than the result."""
    h, w, stride = params["BLOCK_H"], params["BLOCK_W"], shape["STRIDE"]
    fits = h * stride < 2 * shape["H"] and w * stride <= 4 * shape["W"]
    return fits and 1 <= h * w / (32 * params["num_warps"]) <= 16


def kernel(x, window, stride, *, BLOCK_H=8, BLOCK_W=16, PLANES=1, num_warps=4):
    C, H, W = x.shape
    P = (H + window // 2 * 2 - window) // stride + 1
    Q = (W + window // 2 * 2 - window) // stride + 1
    out = torch.empty((C, P, Q), dtype=x.dtype, device=x.device)
    grid = (triton.cdiv(C, PLANES), triton.cdiv(P, BLOCK_H) * triton.cdiv(Q, BLOCK_W))
    rectangle_kernel[grid](
        x, out, C, H, W, P, Q, stride, window, BLOCK_H, BLOCK_W, PLANES, num_warps=num_warps
    )
    return out
