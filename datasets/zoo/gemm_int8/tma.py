"""TMA tiles through the host's descriptors; tiles in bands of rows or of columns."""

import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor

from solkit.datasets.zoo.gemm_int8.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "BLOCK_M": [64, 128],
    "BLOCK_N": [32, 64, 128, 256],
    "BLOCK_K": [64, 128, 256],
    "BAND": [1, 4, 16],
    "num_warps": [4, 8],
    "num_stages": [2, 3, 4],
}


@triton.jit
def int8_tma_kernel(
    x_tiles, w_tiles, out_tiles, x_scale_ptr, w_scale_ptr, M, N, K,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, BAND: tl.constexpr,
):  # fmt: skip
    i, j = tl.swizzle2d(
        tl.program_id(1), tl.program_id(0), tl.num_programs(1), tl.num_programs(0), BAND
    )
    m0, n0 = i * BLOCK_M, j * BLOCK_N
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.int32)
    for k in range(0, K, BLOCK_K):
        acc = tl.dot(x_tiles.load([m0, k]), w_tiles.load([n0, k]).T, acc, out_dtype=tl.int32)
    m, n = m0 + tl.arange(0, BLOCK_M), n0 + tl.arange(0, BLOCK_N)
    x_scale = tl.load(x_scale_ptr + m, mask=m < M, other=0.0)
    w_scale = tl.load(w_scale_ptr + n, mask=n < N, other=0.0)
    out = acc.to(tl.float32) * (x_scale[:, None] * w_scale[None, :])
    out_tiles.store([m0, n0], out.to(out_tiles.dtype))


def valid(params, shape):
    """Rows start at multiples of 16 bytes; tiles and result fit in shared memory."""
    m, n, k = params["BLOCK_M"], params["BLOCK_N"], params["BLOCK_K"]
    if shape["K"] % 16 or shape["N"] % 8:
        return False
    shared = params["num_stages"] * (m + n) * k + 2 * m * n
    return shared <= 227 * 1024 and 8 <= m * n / (32 * params["num_warps"]) <= 128


def kernel(
    x, w, x_scale, w_scale, dtype, *, BLOCK_M=128, BLOCK_N=128, BLOCK_K=128, BAND=4,
    num_warps=8, num_stages=3,
):  # fmt: skip
    (M, K), N = x.shape, w.shape[0]
    out = torch.empty((M, N), dtype=dtype, device=x.device)
    int8_tma_kernel[(triton.cdiv(N, BLOCK_N), triton.cdiv(M, BLOCK_M))](
        TensorDescriptor.from_tensor(x, [BLOCK_M, BLOCK_K]),
        TensorDescriptor.from_tensor(w, [BLOCK_N, BLOCK_K]),
        TensorDescriptor.from_tensor(out, [BLOCK_M, BLOCK_N]),
        x_scale, w_scale, M, N, K, BLOCK_M, BLOCK_N, BLOCK_K, BAND,
        num_warps=num_warps, num_stages=num_stages,
    )  # fmt: skip
    return out
