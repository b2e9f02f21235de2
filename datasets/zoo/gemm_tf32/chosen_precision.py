"""One tile a program; each product in one tf32 product, in three, or in none."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.gemm_tf32.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]


SPACE = {
    "BLOCK_M": [32, 64, 128],
    "BLOCK_N": [64, 128],
    "BLOCK_K": [16, 32],
    "PRECISION": ["tf32", "tf32x3"],
    "num_warps": [4, 8],
    "num_stages": [2, 3, 4],
}


@triton.jit
def precise_kernel(
    x_ptr, w_ptr, out_ptr, M, N, K, PRECISION: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    m = tl.program_id(1) * BLOCK_M + tl.arange(0, BLOCK_M)
    n = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for k0 in range(0, K, BLOCK_K):
        k = k0 + tl.arange(0, BLOCK_K)
        x_mask = (m[:, None] < M) & (k[None, :] < K)
        w_mask = (k[:, None] < K) & (n[None, :] < N)
        x = tl.load(x_ptr + m[:, None] * K + k[None, :], mask=x_mask, other=0.0)
        w = tl.load(w_ptr + k[:, None] * N + n[None, :], mask=w_mask, other=0.0)
        acc = tl.dot(x, w, acc, input_precision=PRECISION)
    inside = (m[:, None] < M) & (n[None, :] < N)
    tl.store(out_ptr + m[:, None] * N + n[None, :], acc, mask=inside)


def valid(params, shape):
    """The pipelined tiles fit in shared memory, the accumulator in registers."""
    m, n, k = params["BLOCK_M"], params["BLOCK_N"], params["BLOCK_K"]
    shared = params["num_stages"] * (m + n) * k * 4
    return shared <= 200 * 1024 and 16 <= m * n / (32 * params["num_warps"]) <= 64


def kernel(
    x, w, *, BLOCK_M=128, BLOCK_N=128, BLOCK_K=32, PRECISION="tf32", num_warps=8, num_stages=3
):  # fmt: skip
    (M, K), N = x.shape, w.shape[1]
    out = torch.empty((M, N), dtype=torch.float32, device=x.device)
    precise_kernel[(triton.cdiv(N, BLOCK_N), triton.cdiv(M, BLOCK_M))](
        x, w, out, M, N, K, PRECISION, BLOCK_M, BLOCK_N, BLOCK_K,
        num_warps=num_warps, num_stages=num_stages,
    )  # fmt: skip
    return out
