"""A matrix of 16-bit elements transposed, tile by tile."""

import torch
import triton
import triton.language as tl

SHAPES = [{"M": 8192, "N": 8192}, {"M": 1000, "N": 30000}]
SPACE = {
    "BLOCK_M": [4, 8, 16, 32, 64, 128],
    "BLOCK_N": [4, 8, 16, 32, 64, 128],
    "num_warps": [1, 2, 4, 8],
}


def reference(x):
    return x.t().contiguous()


def inputs(M=8192, N=8192, dtype=torch.float16, device="cuda"):
    return (torch.randn(M, N, dtype=dtype, device=device),)


@triton.jit
def transpose_kernel(x_ptr, out_ptr, M, N, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    m = tl.program_id(1) * BLOCK_M + tl.arange(0, BLOCK_M)
    n = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    inside = (m[:, None] < M) & (n[None, :] < N)
    x = tl.load(x_ptr + m[:, None] * N + n[None, :], mask=inside)
    tl.store(out_ptr + n[:, None] * M + m[None, :], tl.trans(x), mask=tl.trans(inside))


def valid(params, shape):
    """Two to 64 elements a thread."""
    return 2 <= params["BLOCK_M"] * params["BLOCK_N"] / (32 * params["num_warps"]) <= 64


def kernel(x, *, BLOCK_M=64, BLOCK_N=64, num_warps=4):
    M, N = x.shape
    out = torch.empty((N, M), dtype=x.dtype, device=x.device)
    grid = (triton.cdiv(N, BLOCK_N), triton.cdiv(M, BLOCK_M))
    transpose_kernel[grid](x, out, M, N, BLOCK_M, BLOCK_N, num_warps=num_warps)
    return out
