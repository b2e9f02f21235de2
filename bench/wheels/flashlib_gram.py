"""Flashlib's Gram matrix, X X^T of few long rows, without its symmetric shortcut."""

import torch
import triton
from flashlib.linalg.gram_gemm.triton.gram_gemm import _gram_gemm_kernel

SHAPES = [{"N": 1024, "D": 4096}]
TOLERANCE = {"rtol": 2e-2, "atol": 1.0}
SPACE = {
    "BLOCK_NI": [32, 64, 128],
    "BLOCK_NJ": [32, 64, 128],
    "BLOCK_D": [32, 64, 128, 256],
    "num_warps": [2, 4, 8],
}
WITHOUT_TUNER = _gram_gemm_kernel.fn


def valid(params, shape):
    tile = params["BLOCK_NI"] * params["BLOCK_NJ"]
    staged = 2 * 2 * (params["BLOCK_NI"] + params["BLOCK_NJ"]) * params["BLOCK_D"]
    return 8 <= tile / (32 * params["num_warps"]) <= 128 and staged <= 200_000


def inputs(N=1024, D=4096, device="cuda"):
    return (torch.randn(N, D, dtype=torch.bfloat16, device=device),)


def reference(X):
    return X.float() @ X.float().T


def kernel(X, *, BLOCK_NI=64, BLOCK_NJ=64, BLOCK_D=128, num_warps=4):
    N, D = X.shape
    out = torch.empty(N, N, device=X.device, dtype=torch.float32)
    WITHOUT_TUNER[(triton.cdiv(N, BLOCK_NI), triton.cdiv(N, BLOCK_NJ))](
        X, out, N, D, X.stride(0), X.stride(1), out.stride(0), out.stride(1),
        N_KEY=triton.next_power_of_2(N), D_KEY=triton.next_power_of_2(D), SYMMETRIC=False,
        BLOCK_NI=BLOCK_NI, BLOCK_NJ=BLOCK_NJ, BLOCK_D=BLOCK_D, num_warps=num_warps,
    )  # fmt: skip
    return out
