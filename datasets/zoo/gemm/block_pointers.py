"""Tiles through block pointers, which advance along K and check their own bounds."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.gemm.problem import SHAPES, TOLERANCE, inputs, itemsize, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "BM": [64, 128, 256],
    "BN": [32, 64, 128, 256],
    "BK": [32, 64],
    "COLUMNS": [2, 6],
    "num_warps": [4, 8],
    "num_stages": [1, 3, 4],
}


@triton.jit
def block_pointer_kernel(
    x_ptr, w_ptr, out_ptr, M, N, K,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    # Bands of COLUMNS tile columns, each walked row by row.
    tiles_m, tiles_n = tl.cdiv(M, BM), tl.cdiv(N, BN)
    band = tl.program_id(0) // (COLUMNS * tiles_m)
    width = min(tiles_n - band * COLUMNS, COLUMNS)
    place = tl.program_id(0) % (COLUMNS * tiles_m)
    m0 = place // width * BM
    n0 = (band * COLUMNS + place % width) * BN
    x_tile = tl.make_block_ptr(x_ptr, (M, K), (K, 1), (m0, 0), (BM, BK), (1, 0))
    w_tile = tl.make_block_ptr(w_ptr, (K, N), (N, 1), (0, n0), (BK, BN), (1, 0))
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for _ in range(0, K, BK):
        x = tl.load(x_tile, boundary_check=(0, 1), padding_option="zero")
        w = tl.load(w_tile, boundary_check=(0, 1), padding_option="zero")
        acc = tl.dot(x, w, acc)
        x_tile = tl.advance(x_tile, (0, BK))
        w_tile = tl.advance(w_tile, (BK, 0))
    out_tile = tl.make_block_ptr(out_ptr, (M, N), (N, 1), (m0, n0), (BM, BN), (1, 0))
    tl.store(out_tile, acc.to(out_ptr.dtype.element_ty), boundary_check=(0, 1))


def valid(params, shape):
    """The pipelined tiles fit in shared memory (227 KiB), the accumulator in registers."""
    m, n, k = params["BM"], params["BN"], params["BK"]
    shared = params["num_stages"] * (m + n) * k * itemsize(shape)
    return shared <= 227 * 1024 and 8 <= m * n / (32 * params["num_warps"]) <= 128


def kernel(x, w, *, BM=128, BN=128, BK=32, COLUMNS=6, num_warps=8, num_stages=4):
    (M, K), N = x.shape, w.shape[1]
    out = torch.empty((M, N), dtype=x.dtype, device=x.device)
    block_pointer_kernel[(triton.cdiv(M, BM) * triton.cdiv(N, BN),)](
        x, w, out, M, N, K, BM, BN, BK, COLUMNS, num_warps=num_warps, num_stages=num_stages
    )
    return out
