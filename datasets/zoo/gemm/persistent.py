"""A fixed number of programs, each taking every PROGRAMS-th output tile, in plain pointers."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.gemm.problem import SHAPES, TOLERANCE, inputs, itemsize, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "PROGRAMS": [132, 264],
    "BLOCK_M": [64, 128],
    "BLOCK_N": [64, 128, 256],
    "BLOCK_K": [32, 64, 128],
    "GROUP_M": [1, 8],
    "FLATTEN": [False, True],
    "num_warps": [4, 8],
    "num_stages": [2, 3, 4],
}


@triton.jit
def tile_origin(tile, tiles_m, tiles_n, GROUP_M: tl.constexpr):
    group = tile // (GROUP_M * tiles_n)
    height = min(tiles_m - group * GROUP_M, GROUP_M)
    within = tile % (GROUP_M * tiles_n)
    return group * GROUP_M + within % height, within // height


@triton.jit
def persistent_kernel(
    x_ptr, w_ptr, out_ptr, M, N, K, PROGRAMS: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
    GROUP_M: tl.constexpr, FLATTEN: tl.constexpr,
):  # fmt: skip
    tiles_m, tiles_n = tl.cdiv(M, BLOCK_M), tl.cdiv(N, BLOCK_N)
    for tile in tl.range(tl.program_id(0), tiles_m * tiles_n, PROGRAMS, flatten=FLATTEN):
        tile_m, tile_n = tile_origin(tile, tiles_m, tiles_n, GROUP_M)
        m = tile_m * BLOCK_M + tl.arange(0, BLOCK_M)
        n = tile_n * BLOCK_N + tl.arange(0, BLOCK_N)
        acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
        for k0 in range(0, K, BLOCK_K):
            k = k0 + tl.arange(0, BLOCK_K)
            x_mask = (m[:, None] < M) & (k[None, :] < K)
            w_mask = (k[:, None] < K) & (n[None, :] < N)
            x = tl.load(x_ptr + m[:, None] * K + k[None, :], mask=x_mask, other=0.0)
            w = tl.load(w_ptr + k[:, None] * N + n[None, :], mask=w_mask, other=0.0)
            acc = tl.dot(x, w, acc)
        out_ptrs = out_ptr + m[:, None] * N + n[None, :]
        inside = (m[:, None] < M) & (n[None, :] < N)
        tl.store(out_ptrs, acc.to(out_ptr.dtype.element_ty), mask=inside)


def valid(params, shape):
    """The pipelined tiles fit in shared memory (227 KiB), the accumulator in registers."""
    m, n, k = params["BLOCK_M"], params["BLOCK_N"], params["BLOCK_K"]
    shared = params["num_stages"] * (m + n) * k * itemsize(shape)
    return shared <= 227 * 1024 and 8 <= m * n / (32 * params["num_warps"]) <= 128


def kernel(
    x, w, *, PROGRAMS=132, BLOCK_M=128, BLOCK_N=128, BLOCK_K=32, GROUP_M=8, FLATTEN=False,
    num_warps=8, num_stages=3,
):  # fmt: skip
    (M, K), N = x.shape, w.shape[1]
    out = torch.empty((M, N), dtype=x.dtype, device=x.device)
    tiles = triton.cdiv(M, BLOCK_M) * triton.cdiv(N, BLOCK_N)
    persistent_kernel[(min(PROGRAMS, tiles),)](
        x, w, out, M, N, K, min(PROGRAMS, tiles), BLOCK_M, BLOCK_N, BLOCK_K, GROUP_M, FLATTEN,
        num_warps=num_warps, num_stages=num_stages,
    )  # fmt: skip
    return out
