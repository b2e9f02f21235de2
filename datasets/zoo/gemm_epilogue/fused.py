"""One kernel: a tile of the product gets bias, activation and residual while in registers."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.gemm_epilogue.problem import SHAPES, TOLERANCE, inputs, itemsize, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "BLOCK_M": [32, 64, 128],
    "BLOCK_N": [32, 64, 128, 256],
    "BLOCK_K": [32, 64],
    "GROUP_M": [1, 6],
    "num_warps": [4, 8],
    "num_stages": [2, 3, 4],
}


@triton.jit
def activate(x, KIND: tl.constexpr):
    if KIND == "relu":
        return tl.maximum(x, 0.0)
    elif KIND == "silu":
        return x * tl.sigmoid(x)
    else:  # gelu; 0.5 * (1 + tanh(y)) is sigmoid(2 y)
        return x * tl.sigmoid(1.5957691216057308 * (x + 0.044715 * x * x * x))


@triton.jit
def fused_kernel(
    x_ptr, w_ptr, bias_ptr, residual_ptr, out_ptr, M, N, K, ACTIVATION: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, GROUP_M: tl.constexpr,
):  # fmt: skip
    tiles_m, tiles_n = tl.cdiv(M, BLOCK_M), tl.cdiv(N, BLOCK_N)
    group = tl.program_id(0) // (GROUP_M * tiles_n)
    height = min(tiles_m - group * GROUP_M, GROUP_M)
    within = tl.program_id(0) % (GROUP_M * tiles_n)
    m = (group * GROUP_M + within % height) * BLOCK_M + tl.arange(0, BLOCK_M)
    n = within // height * BLOCK_N + tl.arange(0, BLOCK_N)
    k = tl.arange(0, BLOCK_K)
    x_ptrs = x_ptr + m[:, None] * K + k[None, :]
    w_ptrs = w_ptr + n[None, :] * K + k[:, None]
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for k0 in range(0, K, BLOCK_K):
        inside = k < K - k0
        x = tl.load(x_ptrs, mask=(m[:, None] < M) & inside[None, :], other=0.0)
        w = tl.load(w_ptrs, mask=(n[None, :] < N) & inside[:, None], other=0.0)
        acc = tl.dot(x, w, acc)
        x_ptrs += BLOCK_K
        w_ptrs += BLOCK_K
    bias = tl.load(bias_ptr + n, mask=n < N, other=0.0).to(tl.float32)
    inside = (m[:, None] < M) & (n[None, :] < N)
    at = m[:, None] * N + n[None, :]
    residual = tl.load(residual_ptr + at, mask=inside, other=0.0).to(tl.float32)
    out = activate(acc + bias[None, :], ACTIVATION) + residual
    tl.store(out_ptr + at, out.to(out_ptr.dtype.element_ty), mask=inside)


def valid(params, shape):
    """The pipelined tiles fit in shared memory (227 KiB), the accumulator in registers."""
    m, n, k = params["BLOCK_M"], params["BLOCK_N"], params["BLOCK_K"]
    shared = params["num_stages"] * (m + n) * k * itemsize(shape)
    return shared <= 227 * 1024 and 8 <= m * n / (32 * params["num_warps"]) <= 128


def kernel(
    x, w, bias, residual, activation, *, BLOCK_M=64, BLOCK_N=128, BLOCK_K=32, GROUP_M=6,
    num_warps=4, num_stages=3,
):  # fmt: skip
    (M, K), N = x.shape, w.shape[0]
    out = torch.empty((M, N), dtype=x.dtype, device=x.device)
    fused_kernel[(triton.cdiv(M, BLOCK_M) * triton.cdiv(N, BLOCK_N),)](
        x, w, bias, residual, out, M, N, K, activation, BLOCK_M, BLOCK_N, BLOCK_K, GROUP_M,
        num_warps=num_warps, num_stages=num_stages,
    )  # fmt: skip
    return out
