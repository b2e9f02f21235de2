"""One output tile a program; the tensor cores' sums move to full fp32 each step, or never."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.gemm_fp8.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "BLOCK_M": [16, 32, 64, 128],
    "BLOCK_N": [32, 64, 128, 256],
    "BLOCK_K": [32, 64, 128],
    "PROMOTE": [False, True],
    "num_warps": [4, 8],
    "num_stages": [2, 3, 4],
}


@triton.jit
def fp8_kernel(
    x_ptr, w_ptr, x_scale_ptr, w_scale_ptr, out_ptr, M, N, K, PROMOTE: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    m = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    n = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    k = tl.arange(0, BLOCK_K)
    x_ptrs = x_ptr + m[:, None] * K + k[None, :]
    w_ptrs = w_ptr + n[None, :] * K + k[:, None]
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for k0 in range(0, K, BLOCK_K):
        inside = k < K - k0
        x = tl.load(x_ptrs, mask=(m[:, None] < M) & inside[None, :], other=0.0)
        w = tl.load(w_ptrs, mask=(n[None, :] < N) & inside[:, None], other=0.0)
        if PROMOTE:
            acc += tl.dot(x, w)
        else:
            acc = tl.dot(x, w, acc)
        x_ptrs += BLOCK_K
        w_ptrs += BLOCK_K
    x_scale = tl.load(x_scale_ptr + m, mask=m < M, other=0.0)
    w_scale = tl.load(w_scale_ptr + n, mask=n < N, other=0.0)
    out = acc * x_scale[:, None] * w_scale[None, :]
    inside = (m[:, None] < M) & (n[None, :] < N)
    tl.store(out_ptr + m[:, None] * N + n[None, :], out.to(out_ptr.dtype.element_ty), mask=inside)


def valid(params, shape):
    """The pipelined tiles fit in shared memory; promoted sums are held twice in registers."""
    m, n, k = params["BLOCK_M"], params["BLOCK_N"], params["BLOCK_K"]
    held = m * n / (32 * params["num_warps"])
    fits = params["num_stages"] * (m + n) * k <= 227 * 1024
    return fits and 4 <= held <= (64 if params["PROMOTE"] else 128)


def kernel(
    x, w, x_scale, w_scale, dtype, *, BLOCK_M=64, BLOCK_N=128, BLOCK_K=128, PROMOTE=False,
    num_warps=4, num_stages=4,
):  # fmt: skip
    (M, K), N = x.shape, w.shape[0]
    out = torch.empty((M, N), dtype=dtype, device=x.device)
    fp8_kernel[(triton.cdiv(M, BLOCK_M), triton.cdiv(N, BLOCK_N))](
        x, w, x_scale, w_scale, out, M, N, K, PROMOTE, BLOCK_M, BLOCK_N, BLOCK_K,
        num_warps=num_warps, num_stages=num_stages,
    )  # fmt: skip
    return out
