"""Grouped-mm-bf16's batched product: a plain grid of tiles, every stride a constant."""

import torch
import triton
import triton.language as tl
from grouped_mm_bf16.kernels import _grouped_mm_3d3d_kernel

from solkit.datasets.libraries.packages import check_installed
from solkit.datasets.zoo.gemm_batched import problem
from solkit.datasets.zoo.gemm_batched.problem import TOLERANCE, inputs, reference

check_installed("grouped-mm-bf16", "0.1.7")
__all__ = ["KIND", "SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]
KIND = "matmul"
SHAPES = [problem.SHAPES[place] for place in (0, 2, 5)]
SPACE = {
    "BLOCK_M": [32, 64, 128],
    "BLOCK_N": [32, 64, 128, 256],
    "BLOCK_K": [32, 64],
    "num_warps": [2, 4, 8],
    "num_stages": [2, 3, 4],
}


def valid(params, shape):
    m, n, k = (params[f"BLOCK_{axis}"] for axis in "MNK")
    staged = (m + n) * k * 2 * params["num_stages"]
    return 16 <= m * n / (32 * params["num_warps"]) <= 128 and staged <= 200_000


def kernel(a, b, *, BLOCK_M=64, BLOCK_N=128, BLOCK_K=32, num_warps=4, num_stages=3):
    G, M, K = a.shape
    N = b.shape[2]
    c = torch.empty((G, M, N), dtype=a.dtype, device=a.device)
    _grouped_mm_3d3d_kernel[(triton.cdiv(M, BLOCK_M), triton.cdiv(N, BLOCK_N), G)](
        a, b, c, M, N, K, *a.stride(), *b.stride(), *c.stride(), OUT_DTYPE=tl.bfloat16,
        ALLOW_TF32=False, BLOCK_M=BLOCK_M, BLOCK_N=BLOCK_N, BLOCK_K=BLOCK_K,
        num_warps=num_warps, num_stages=num_stages,
    )  # fmt: skip
    return c
