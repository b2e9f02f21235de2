"""FlashNN's int8 product, both factors contiguous along the sum, scaled by row and column."""

import torch
import triton
from flashnn.triton_kernels.gemm_a8w8 import _triton_gemm_a8w8_kernel

from solkit.datasets.libraries.packages import check_installed
from solkit.datasets.zoo.gemm_int8 import problem
from solkit.datasets.zoo.gemm_int8.problem import TOLERANCE, inputs, reference

check_installed("flashnn", "0.1.1")
__all__ = ["KIND", "SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]
KIND = "matmul"
SHAPES = [problem.SHAPES[place] for place in (0, 3, 4)]
SPACE = {
    "BLOCK_M": [16, 32, 64, 128, 256],
    "BLOCK_N": [32, 64, 128, 256],
    "BLOCK_K": [32, 64, 128],
    "GROUP_SIZE_M": [1, 8],
    "num_warps": [4, 8],
    "num_stages": [2, 3, 4, 5],
}


def valid(params, shape):
    tile = params["BLOCK_M"] * params["BLOCK_N"]
    staged = (params["BLOCK_M"] + params["BLOCK_N"]) * params["BLOCK_K"] * params["num_stages"]
    return (
        8 <= tile / (32 * params["num_warps"]) <= 256
        and staged <= 200_000
        and params["BLOCK_M"] <= 2 * shape["M"]
    )


def kernel(a, b, alpha_row, alpha_col, dtype, *, BLOCK_M=128, BLOCK_N=128, BLOCK_K=64,
           GROUP_SIZE_M=8, num_warps=8, num_stages=3):  # fmt: skip
    M, K = a.shape
    N = b.shape[0]
    out = torch.empty((M, N), dtype=dtype, device=a.device)
    _triton_gemm_a8w8_kernel[(triton.cdiv(M, BLOCK_M) * triton.cdiv(N, BLOCK_N), 1, 1)](
        a, b, out, alpha_row, alpha_col, M, N, K, a.stride(0), a.stride(1), b.stride(0),
        b.stride(1), out.stride(0), out.stride(1), BLOCK_M=BLOCK_M, BLOCK_N=BLOCK_N,
        BLOCK_K=BLOCK_K, GROUP_SIZE_M=GROUP_SIZE_M, num_warps=num_warps, num_stages=num_stages,
    )  # fmt: skip
    return out
