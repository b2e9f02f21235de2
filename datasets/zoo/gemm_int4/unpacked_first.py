"""Unfused: one kernel dequantises all weights to 16 bits, another multiplies with them."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.gemm_int4.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "UNPACK_ROWS": [1, 4, 8],
    "BLOCK_M": [16, 32, 64, 128],
    "BLOCK_N": [32, 64, 128],
    "BLOCK_K": [32, 64],
    "num_warps": [4, 8],
    "num_stages": [2, 3, 4],
}


@triton.jit
def unpack_kernel(
    packed_ptr, scale_ptr, w_ptr, N, K, GROUP: tl.constexpr, ROWS: tl.constexpr, COLS: tl.constexpr
):  # fmt: skip
    n = tl.program_id(1) * COLS + tl.arange(0, COLS)
    for i in tl.static_range(ROWS):
        row = tl.program_id(0) * ROWS + i
        inside = (row < K // 2) & (n < N)
        byte = tl.load(packed_ptr + row * N + n, mask=inside, other=0).to(tl.int32)
        scale = tl.load(scale_ptr + 2 * row // GROUP * N + n, mask=inside, other=0.0)
        low = ((byte & 15) - 8).to(scale.dtype) * scale
        high = ((byte >> 4) - 8).to(scale.dtype) * scale
        tl.store(w_ptr + 2 * row * N + n, low, mask=inside)
        tl.store(w_ptr + (2 * row + 1) * N + n, high, mask=inside)


@triton.jit
def product_kernel(
    x_ptr, w_ptr, out_ptr, M, N, K,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    m0, n0 = tl.program_id(0) * BLOCK_M, tl.program_id(1) * BLOCK_N
    x_tile = tl.make_block_ptr(x_ptr, (M, K), (K, 1), (m0, 0), (BLOCK_M, BLOCK_K), (1, 0))
    w_tile = tl.make_block_ptr(w_ptr, (K, N), (N, 1), (0, n0), (BLOCK_K, BLOCK_N), (1, 0))
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for _ in range(0, K, BLOCK_K):
        x = tl.load(x_tile, boundary_check=(0, 1), padding_option="zero")
        w = tl.load(w_tile, boundary_check=(0, 1), padding_option="zero")
        acc = tl.dot(x, w, acc)
        x_tile = tl.advance(x_tile, (0, BLOCK_K))
        w_tile = tl.advance(w_tile, (BLOCK_K, 0))
    out = tl.make_block_ptr(out_ptr, (M, N), (N, 1), (m0, n0), (BLOCK_M, BLOCK_N), (1, 0))
    tl.store(out, acc.to(out_ptr.dtype.element_ty), boundary_check=(0, 1))


def valid(params, shape):
    """Tiles fit in shared memory (227 KiB), sums in registers; rows not far beyond M."""
    m, n, k = params["BLOCK_M"], params["BLOCK_N"], params["BLOCK_K"]
    near = m < 2 * max(16, shape["M"])
    shared = params["num_stages"] * (m + n) * k * 2
    return near and shared <= 227 * 1024 and 4 <= m * n / (32 * params["num_warps"]) <= 128


def kernel(
    x, packed, scales, group, *, UNPACK_ROWS=4, BLOCK_M=16, BLOCK_N=64, BLOCK_K=64,
    num_warps=4, num_stages=3,
):  # fmt: skip
    (M, K), N = x.shape, packed.shape[1]
    w = torch.empty((K, N), dtype=x.dtype, device=x.device)
    out = torch.empty((M, N), dtype=x.dtype, device=x.device)
    unpack_kernel[(triton.cdiv(K // 2, UNPACK_ROWS), triton.cdiv(N, 1024))](
        packed, scales, w, N, K, group, UNPACK_ROWS, 1024
    )
    product_kernel[(triton.cdiv(M, BLOCK_M), triton.cdiv(N, BLOCK_N))](
        x, w, out, M, N, K, BLOCK_M, BLOCK_N, BLOCK_K, num_warps=num_warps, num_stages=num_stages
    )
    return out
