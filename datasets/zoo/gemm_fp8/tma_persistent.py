"""TMA tiles and persistent programs in grouped order; scales are applied at the end."""

import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor

from solkit.datasets.zoo.gemm_fp8.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "PROGRAMS": [132, 264],
    "BLOCK_M": [64, 128],
    "BLOCK_N": [64, 128, 256],
    "BLOCK_K": [64, 128],
    "GROUP_M": [1, 8],
    "num_warps": [4, 8],
    "num_stages": [2, 3, 4, 5],
}


@triton.jit
def fp8_tma_kernel(
    x_tiles, w_tiles, out_tiles, x_scale_ptr, w_scale_ptr, M, N, K,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, GROUP_M: tl.constexpr,
):  # fmt: skip
    tiles_m, tiles_n = tl.cdiv(M, BLOCK_M), tl.cdiv(N, BLOCK_N)
    for tile in range(tl.program_id(0), tiles_m * tiles_n, tl.num_programs(0)):
        i, j = tl.swizzle2d(tile // tiles_n, tile % tiles_n, tiles_m, tiles_n, GROUP_M)
        m0, n0 = i * BLOCK_M, j * BLOCK_N
        acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
        for k in range(0, K, BLOCK_K):
            acc = tl.dot(x_tiles.load([m0, k]), w_tiles.load([n0, k]).T, acc)
        m, n = m0 + tl.arange(0, BLOCK_M), n0 + tl.arange(0, BLOCK_N)
        acc *= tl.load(x_scale_ptr + m, mask=m < M, other=0.0)[:, None]
        acc *= tl.load(w_scale_ptr + n, mask=n < N, other=0.0)[None, :]
        out_tiles.store([m0, n0], acc.to(out_tiles.dtype))


def valid(params, shape):
    """Rows start at multiples of 16 bytes; tiles and result fit in shared memory."""
    m, n, k = params["BLOCK_M"], params["BLOCK_N"], params["BLOCK_K"]
    if shape["K"] % 16 or shape["N"] % 8:
        return False
    shared = params["num_stages"] * (m + n) * k + 2 * m * n
    return shared <= 227 * 1024 and 8 <= m * n / (32 * params["num_warps"]) <= 128


def kernel(
    x, w, x_scale, w_scale, dtype, *, PROGRAMS=132, BLOCK_M=128, BLOCK_N=128, BLOCK_K=128,
    GROUP_M=8, num_warps=8, num_stages=4,
):  # fmt: skip
    (M, K), N = x.shape, w.shape[0]
    out = torch.empty((M, N), dtype=dtype, device=x.device)
    tiles = triton.cdiv(M, BLOCK_M) * triton.cdiv(N, BLOCK_N)
    fp8_tma_kernel[(min(PROGRAMS, tiles),)](
        TensorDescriptor.from_tensor(x, [BLOCK_M, BLOCK_K]),
        TensorDescriptor.from_tensor(w, [BLOCK_N, BLOCK_K]),
        TensorDescriptor.from_tensor(out, [BLOCK_M, BLOCK_N]),
        x_scale, w_scale, M, N, K, BLOCK_M, BLOCK_N, BLOCK_K, GROUP_M,
        num_warps=num_warps, num_stages=num_stages,
    )  # fmt: skip
    return out
