"""Persistent programs with block pointers, each on a stretch of tiles that lie side by side."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.gemm_int8.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "PROGRAMS": [132, 264],
    "BLOCK_M": [16, 32, 64, 128],
    "BLOCK_N": [64, 128, 256],
    "BLOCK_K": [32, 64, 128],
    "num_warps": [4, 8],
    "num_stages": [2, 3, 4],
}


@triton.jit
def stretch_kernel(
    x_ptr, w_ptr, x_scale_ptr, w_scale_ptr, out_ptr, M, N, K, STRETCH,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    tiles_m = tl.cdiv(M, BLOCK_M)
    first = tl.program_id(0) * STRETCH
    for tile in range(first, min(first + STRETCH, tiles_m * tl.cdiv(N, BLOCK_N))):
        m0, n0 = tile % tiles_m * BLOCK_M, tile // tiles_m * BLOCK_N
        x_tile = tl.make_block_ptr(x_ptr, (M, K), (K, 1), (m0, 0), (BLOCK_M, BLOCK_K), (1, 0))
        w_tile = tl.make_block_ptr(w_ptr, (N, K), (K, 1), (n0, 0), (BLOCK_N, BLOCK_K), (1, 0))
        acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.int32)
        for _ in range(0, K, BLOCK_K):
            x = tl.load(x_tile, boundary_check=(0, 1), padding_option="zero")
            w = tl.load(w_tile, boundary_check=(0, 1), padding_option="zero")
            acc = tl.dot(x, w.T, acc, out_dtype=tl.int32)
            x_tile = tl.advance(x_tile, (0, BLOCK_K))
            w_tile = tl.advance(w_tile, (0, BLOCK_K))
        m, n = m0 + tl.arange(0, BLOCK_M), n0 + tl.arange(0, BLOCK_N)
        scale = tl.load(x_scale_ptr + m, mask=m < M, other=0.0)[:, None]
        scale = scale * tl.load(w_scale_ptr + n, mask=n < N, other=0.0)[None, :]
        out = (acc * scale).to(out_ptr.dtype.element_ty)
        inside = (m[:, None] < M) & (n[None, :] < N)
        tl.store(out_ptr + m[:, None] * N + n[None, :], out, mask=inside)


def valid(params, shape):
    """Tiles fit in shared memory, sums in registers; rows not far beyond those there are."""
    m, n, k = params["BLOCK_M"], params["BLOCK_N"], params["BLOCK_K"]
    near = m < 2 * max(16, shape["M"])
    fits = params["num_stages"] * (m + n) * k <= 227 * 1024
    return near and fits and 4 <= m * n / (32 * params["num_warps"]) <= 128


def kernel(
    x, w, x_scale, w_scale, dtype, *, PROGRAMS=264, BLOCK_M=32, BLOCK_N=128, BLOCK_K=128,
    num_warps=4, num_stages=3,
):  # fmt: skip
    (M, K), N = x.shape, w.shape[0]
    out = torch.empty((M, N), dtype=dtype, device=x.device)
    tiles = triton.cdiv(M, BLOCK_M) * triton.cdiv(N, BLOCK_N)
    stretch = triton.cdiv(tiles, PROGRAMS)
    stretch_kernel[(triton.cdiv(tiles, stretch),)](
        x, w, x_scale, w_scale, out, M, N, K, stretch, BLOCK_M, BLOCK_N, BLOCK_K,
        num_warps=num_warps, num_stages=num_stages,
    )  # fmt: skip
    return out
