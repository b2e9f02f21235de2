"""Gradients of RMS normalisation: dx row by row in loops, the weight's by strips of columns."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.rms_norm_backward.problem import EPS, SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "BLOCK": [256, 512, 1024, 2048],
    "TILE_M": [8, 16, 32, 64],
    "TILE_N": [32, 64, 128],
    "SPLITS": [4, 16, 64],
    "num_warps": [2, 4, 8],
    "num_stages": [1, 3],
}


@triton.jit
def dx_kernel(x_ptr, w_ptr, dy_ptr, dx_ptr, scale_ptr, D, eps, BLOCK: tl.constexpr):
    token = tl.program_id(0)
    x_ptr += token.to(tl.int64) * D
    dy_ptr += token.to(tl.int64) * D
    dx_ptr += token.to(tl.int64) * D
    squares = tl.zeros((BLOCK,), tl.float32)
    dots = tl.zeros((BLOCK,), tl.float32)
    for d in range(0, D, BLOCK):
        i = d + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + i, mask=i < D, other=0.0).to(tl.float32)
        g = tl.load(dy_ptr + i, mask=i < D, other=0.0).to(tl.float32)
        w = tl.load(w_ptr + i, mask=i < D, other=0.0).to(tl.float32)
        squares += x * x
        dots += g * w * x
    scale = tl.rsqrt(tl.sum(squares, axis=0) / D + eps)
    tl.store(scale_ptr + token, scale)  # the second launch wants it
    slope = tl.sum(dots, axis=0) / D * scale * scale
    for d in range(0, D, BLOCK):
        i = d + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + i, mask=i < D, other=0.0).to(tl.float32)
        g = tl.load(dy_ptr + i, mask=i < D, other=0.0).to(tl.float32)
        w = tl.load(w_ptr + i, mask=i < D, other=0.0).to(tl.float32)
        tl.store(dx_ptr + i, (scale * (g * w - x * slope)).to(dx_ptr.dtype.element_ty), mask=i < D)


@triton.jit
def dw_kernel(
    x_ptr, dy_ptr, scale_ptr, dw_ptr, M, N, share, TILE_M: tl.constexpr, TILE_N: tl.constexpr
):
    n = tl.program_id(0) * TILE_N + tl.arange(0, TILE_N)
    first = tl.program_id(1) * share
    last = tl.minimum(first + share, M)
    acc = tl.zeros((TILE_N,), tl.float32)
    for top in range(first, last, TILE_M):
        m = top + tl.arange(0, TILE_M)
        mask = (m < last)[:, None] & (n < N)[None, :]
        at = m.to(tl.int64)[:, None] * N + n[None, :]
        scale = tl.load(scale_ptr + m, mask=m < last, other=0.0)[:, None]
        x = tl.load(x_ptr + at, mask=mask, other=0.0).to(tl.float32)
        dy = tl.load(dy_ptr + at, mask=mask, other=0.0).to(tl.float32)
        acc += tl.sum(x * dy * scale, axis=0)
    tl.atomic_add(dw_ptr + n, acc, mask=n < N, sem="relaxed")


def valid(params, shape):
    """One to 32 values a thread, blocks not far longer than rows, a tile for every split."""
    threads = 32 * params["num_warps"]
    near = params["BLOCK"] < 2 * shape["N"] and params["SPLITS"] * params["TILE_M"] <= shape["M"]
    tile = params["TILE_M"] * params["TILE_N"]
    return near and 1 <= params["BLOCK"] / threads <= 32 and 2 <= tile / threads <= 32


def kernel(x, weight, dy, *, BLOCK=512, TILE_M=16, TILE_N=64, SPLITS=16, num_warps=4, num_stages=3):
    M, N = x.shape
    dx, dw = torch.empty_like(x), torch.zeros(N, dtype=torch.float32, device=x.device)
    scale = torch.empty(M, dtype=torch.float32, device=x.device)
    launch = {"num_warps": num_warps, "num_stages": num_stages}
    dx_kernel[(M,)](x, weight, dy, dx, scale, N, EPS, BLOCK, **launch)
    grid = (triton.cdiv(N, TILE_N), SPLITS)
    dw_kernel[grid](x, dy, scale, dw, M, N, triton.cdiv(M, SPLITS), TILE_M, TILE_N, **launch)
    return dx, dw
