"""A matrix product in fp32 on the scalar pipes: long, and bound by arithmetic alone."""

import torch
import triton
import triton.language as tl

SHAPES = [{"M": 4096, "N": 4096, "K": 4096}, {"M": 7168, "N": 7168, "K": 7168}]
SPACE = {"BLOCK": [64, 128], "BLOCK_K": [16, 32], "num_warps": [4, 8], "num_stages": [2, 3]}
TOLERANCE = {"rtol": 1e-4, "atol": 1e-3}  # sums of either sign, in another order


def reference(x, w):
    return x @ w


def inputs(M=4096, N=4096, K=4096, dtype=torch.float32, device="cuda"):
    x = torch.randn(M, K, dtype=dtype, device=device)
    w = torch.randn(K, N, dtype=dtype, device=device) * K**-0.5
    return x, w


@triton.jit
def fp32_matmul_kernel(x_ptr, w_ptr, out_ptr, M, N, K, BLOCK: tl.constexpr, BLOCK_K: tl.constexpr):
    m = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    n = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK, BLOCK), dtype=tl.float32)
    for start in range(0, K, BLOCK_K):
        k = start + tl.arange(0, BLOCK_K)
        inside_x = (m[:, None] < M) & (k[None, :] < K)
        inside_w = (k[:, None] < K) & (n[None, :] < N)
        x = tl.load(x_ptr + m[:, None] * K + k[None, :], mask=inside_x, other=0.0)
        w = tl.load(w_ptr + k[:, None] * N + n[None, :], mask=inside_w, other=0.0)
        total = tl.dot(x, w, total, input_precision="ieee")
    inside = (m[:, None] < M) & (n[None, :] < N)
    tl.store(out_ptr + m[:, None] * N + n[None, :], total, mask=inside)


def kernel(x, w, *, BLOCK=64, BLOCK_K=16, num_warps=4, num_stages=3):
    M, K = x.shape
    N = w.shape[1]
    out = torch.empty((M, N), dtype=x.dtype, device=x.device)
    grid = (triton.cdiv(M, BLOCK), triton.cdiv(N, BLOCK))
    fp32_matmul_kernel[grid](
        x, w, out, M, N, K, BLOCK=BLOCK, BLOCK_K=BLOCK_K, num_warps=num_warps, num_stages=num_stages
    )
    return out
