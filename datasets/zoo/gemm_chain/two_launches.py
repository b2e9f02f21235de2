"""The hidden layer goes through memory: one kernel for both products, relu after the first."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.gemm_chain.problem import SHAPES, TOLERANCE, inputs, itemsize, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]


SPACE = {
    "BLOCK_M": [64, 128],
    "BLOCK_N": [32, 64, 128],
    "BLOCK_K": [32, 64],
    "num_warps": [4, 8],
    "num_stages": [2, 3, 4],
}


@triton.jit
def product_kernel(
    x_ptr, w_ptr, out_ptr, M, N, K, RELU: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    wide = tl.cdiv(N, BLOCK_N)
    m = tl.program_id(0) // wide * BLOCK_M + tl.arange(0, BLOCK_M)
    n = tl.program_id(0) % wide * BLOCK_N + tl.arange(0, BLOCK_N)
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for k0 in range(0, K, BLOCK_K):
        k = k0 + tl.arange(0, BLOCK_K)
        x_mask = (m[:, None] < M) & (k[None, :] < K)
        w_mask = (k[:, None] < K) & (n[None, :] < N)
        x = tl.load(x_ptr + m[:, None] * K + k[None, :], mask=x_mask, other=0.0)
        w = tl.load(w_ptr + k[:, None] * N + n[None, :], mask=w_mask, other=0.0)
        acc = tl.dot(x, w, acc)
    if RELU:
        acc = tl.maximum(acc, 0.0)
    inside = (m[:, None] < M) & (n[None, :] < N)
    tl.store(out_ptr + m[:, None] * N + n[None, :], acc.to(out_ptr.dtype.element_ty), mask=inside)


def valid(params, shape):
    """The pipelined tiles fit in shared memory, the sum in registers."""
    m, n, k = params["BLOCK_M"], params["BLOCK_N"], params["BLOCK_K"]
    shared = params["num_stages"] * (m + n) * k * itemsize(shape)
    held = m * n / (32 * params["num_warps"])
    return n <= max(64, shape["D"]) and shared <= 220 * 1024 and 8 <= held <= 64


def kernel(x, up, down, *, BLOCK_M=128, BLOCK_N=64, BLOCK_K=64, num_warps=4, num_stages=3):
    (M, D), H = x.shape, up.shape[1]
    hidden = torch.empty((M, H), dtype=x.dtype, device=x.device)
    out = torch.empty_like(x)
    settings = {"num_warps": num_warps, "num_stages": num_stages}
    rows = triton.cdiv(M, BLOCK_M)
    product_kernel[(rows * triton.cdiv(H, BLOCK_N),)](
        x, up, hidden, M, H, D, True, BLOCK_M, BLOCK_N, BLOCK_K, **settings
    )
    product_kernel[(rows * triton.cdiv(D, BLOCK_N),)](
        hidden, down, out, M, D, H, False, BLOCK_M, BLOCK_N, BLOCK_K, **settings
    )
    return out
