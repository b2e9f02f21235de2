"""One output tile a program, in an order that goes down GROUP_M tile rows before it moves right."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.gemm.problem import SHAPES, TOLERANCE, inputs, itemsize, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "BLOCK_M": [32, 64, 128, 256],
    "BLOCK_N": [32, 64, 128, 256],
    "BLOCK_K": [32, 64, 128],
    "GROUP_M": [1, 4, 8],
    "num_warps": [4, 8],
    "num_stages": [2, 3, 4, 5],
}


@triton.jit
def grouped_kernel(
    x_ptr, w_ptr, out_ptr, M, N, K,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
    GROUP_M: tl.constexpr, EVEN_K: tl.constexpr,
):  # fmt: skip
    pid = tl.program_id(0)
    tiles_m, tiles_n = tl.cdiv(M, BLOCK_M), tl.cdiv(N, BLOCK_N)
    group = pid // (GROUP_M * tiles_n)
    height = min(tiles_m - group * GROUP_M, GROUP_M)  # the last group may be lower
    within = pid - group * GROUP_M * tiles_n
    m = (group * GROUP_M + within % height) * BLOCK_M + tl.arange(0, BLOCK_M)
    n = (within // height) * BLOCK_N + tl.arange(0, BLOCK_N)
    k = tl.arange(0, BLOCK_K)
    x_ptrs = x_ptr + m[:, None] * K + k[None, :]
    w_ptrs = w_ptr + k[:, None] * N + n[None, :]
    in_m, in_n = m[:, None] < M, n[None, :] < N
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for k0 in range(0, K, BLOCK_K):
        if EVEN_K:
            x = tl.load(x_ptrs, mask=in_m, other=0.0)
            w = tl.load(w_ptrs, mask=in_n, other=0.0)
        else:
            x = tl.load(x_ptrs, mask=in_m & (k[None, :] < K - k0), other=0.0)
            w = tl.load(w_ptrs, mask=in_n & (k[:, None] < K - k0), other=0.0)
        acc = tl.dot(x, w, acc)
        x_ptrs += BLOCK_K
        w_ptrs += BLOCK_K * N
    out = acc.to(out_ptr.dtype.element_ty)
    tl.store(out_ptr + m[:, None] * N + n[None, :], out, mask=in_m & in_n)


def valid(params, shape):
    """The pipelined tiles fit in shared memory (227 KiB), the accumulator in registers."""
    m, n, k = params["BLOCK_M"], params["BLOCK_N"], params["BLOCK_K"]
    shared = params["num_stages"] * (m + n) * k * itemsize(shape)
    return shared <= 227 * 1024 and 8 <= m * n / (32 * params["num_warps"]) <= 128


def kernel(
    x, w, *, BLOCK_M=128, BLOCK_N=128, BLOCK_K=32, GROUP_M=8, num_warps=8, num_stages=4
):  # fmt: skip
    (M, K), N = x.shape, w.shape[1]
    out = torch.empty((M, N), dtype=x.dtype, device=x.device)
    grouped_kernel[(triton.cdiv(M, BLOCK_M) * triton.cdiv(N, BLOCK_N),)](
        x, w, out, M, N, K, BLOCK_M, BLOCK_N, BLOCK_K, GROUP_M, K % BLOCK_K == 0,
        num_warps=num_warps, num_stages=num_stages,
    )  # fmt: skip
    return out
