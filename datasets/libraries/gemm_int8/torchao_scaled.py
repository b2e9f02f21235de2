"""Torchao's scaled int8 product of training, without its autotuner."""

import torch
import triton
from torchao.prototype.quantized_training.int8_mm import _scaled_int8_mm_kernel

from solkit.datasets.libraries.packages import check_installed
from solkit.datasets.zoo.gemm_int8 import problem
from solkit.datasets.zoo.gemm_int8.problem import TOLERANCE, inputs, reference

check_installed("torchao", "0.18.0")
__all__ = ["KIND", "SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]
KIND = "matmul"
SHAPES = [problem.SHAPES[place] for place in (1, 3, 4, 5)]
SPACE = {
    "BLOCK_M": [32, 64, 128, 256],
    "BLOCK_N": [32, 64, 128, 256],
    "BLOCK_K": [32, 64, 128],
    "GROUP_M": [4, 8],
    "num_warps": [2, 4, 8],
    "num_stages": [2, 3, 4, 5],
}
HEURISTICS = _scaled_int8_mm_kernel.fn


def valid(params, shape):
    tile = params["BLOCK_M"] * params["BLOCK_N"]
    staged = (params["BLOCK_M"] + params["BLOCK_N"]) * params["BLOCK_K"] * params["num_stages"]
    return 16 <= tile / (32 * params["num_warps"]) <= 256 and staged <= 200_000


def kernel(a, b, row_scale, col_scale, dtype, *, BLOCK_M=128, BLOCK_N=128, BLOCK_K=64, GROUP_M=8,
           num_warps=8, num_stages=3):  # fmt: skip
    b = b.t()
    M, K = a.shape
    N = b.shape[1]
    c = torch.empty(M, N, device=a.device, dtype=dtype)

    def grid(meta):
        return (triton.cdiv(meta["M"], meta["BLOCK_M"]) * triton.cdiv(meta["N"], meta["BLOCK_N"]),)

    HEURISTICS[grid](
        a, b, c, row_scale, col_scale, M, N, K, *a.stride(), *b.stride(), *c.stride(),
        BLOCK_M=BLOCK_M, BLOCK_N=BLOCK_N, BLOCK_K=BLOCK_K, GROUP_M=GROUP_M,
        COL_SCALE_SCALAR=False, num_warps=num_warps, num_stages=num_stages,
    )  # fmt: skip
    return c
