"""Matrix product x @ w.T in fp16: both operands run along K, as a linear layer has them."""

import torch
import triton
import triton.language as tl

SHAPES = [{"M": 2048, "N": 4096, "K": 2048}, {"M": 512, "N": 4096, "K": 1024}]
SPACE = {
    "BLOCK_M": [32, 64, 128, 256],
    "BLOCK_N": [32, 64, 128, 256],
    "BLOCK_K": [32, 64, 128],
    "num_warps": [4, 8],
    "num_stages": [2, 3, 4],
}
TOLERANCE = {"rtol": 1e-2, "atol": 2e-2}


def reference(x, w):
    return x @ w.T


def inputs(M=2048, N=4096, K=2048, dtype=torch.float16, device="cuda"):
    x = torch.randn(M, K, dtype=dtype, device=device)
    return x, torch.randn(N, K, dtype=dtype, device=device) * K**-0.5


@triton.jit
def gemm_nt_kernel(
    x_ptr, w_ptr, out_ptr, M, N, K,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    m = tl.program_id(1) * BLOCK_M + tl.arange(0, BLOCK_M)
    n = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
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
    inside = (m[:, None] < M) & (n[None, :] < N)
    tl.store(out_ptr + m[:, None] * N + n[None, :], acc.to(out_ptr.dtype.element_ty), mask=inside)


def valid(params, shape):
    """The pipelined tiles fit in shared memory (227 KiB), the accumulator in registers."""
    m, n, k = params["BLOCK_M"], params["BLOCK_N"], params["BLOCK_K"]
    shared = params["num_stages"] * (m + n) * k * 2
    return shared <= 227 * 1024 and 8 <= m * n / (32 * params["num_warps"]) <= 128


def kernel(x, w, *, BLOCK_M=128, BLOCK_N=128, BLOCK_K=64, num_warps=8, num_stages=3):
    (M, K), N = x.shape, w.shape[0]
    out = torch.empty((M, N), dtype=x.dtype, device=x.device)
    grid = (triton.cdiv(N, BLOCK_N), triton.cdiv(M, BLOCK_M))
    gemm_nt_kernel[grid](
        x, w, out, M, N, K, BLOCK_M, BLOCK_N, BLOCK_K, num_warps=num_warps, num_stages=num_stages
    )
    return out
