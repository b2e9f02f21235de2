"""A tile a program and five loads of it, shifted each way; the caches see the overlap."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.stencil.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "BLOCK_M": [1, 2, 4, 8, 16, 32],
    "BLOCK_N": [32, 64, 128, 256, 512, 1024],
    "num_warps": [1, 2, 4, 8],
}


@triton.jit
def five_kernel(x_ptr, out_ptr, M, N, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    m = (tl.program_id(1) * BLOCK_M + tl.arange(0, BLOCK_M))[:, None]
    n = (tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N))[None, :]
    inside = (m < M) & (n < N)
    here = x_ptr + m * N + n
    x = tl.load(here, mask=inside, other=0.0).to(tl.float32)
    around = tl.load(here - N, mask=inside & (m > 0), other=0.0).to(tl.float32)
    around += tl.load(here + N, mask=inside & (m < M - 1), other=0.0).to(tl.float32)
    around += tl.load(here - 1, mask=inside & (n > 0), other=0.0).to(tl.float32)
    around += tl.load(here + 1, mask=inside & (n < N - 1), other=0.0).to(tl.float32)
    out = 0.5 * x + 0.125 * around
    tl.store(out_ptr + m * N + n, out.to(out_ptr.dtype.element_ty), mask=inside)


def valid(params, shape):
    """One to 32 points a thread, no tile far larger than the grid."""
    m, n = params["BLOCK_M"], params["BLOCK_N"]
    fits = m < 2 * shape["M"] and n < 2 * shape["N"]
    return fits and 1 <= m * n / (32 * params["num_warps"]) <= 32


def kernel(x, *, BLOCK_M=4, BLOCK_N=128, num_warps=4):
    M, N = x.shape
    out = torch.empty_like(x)
    grid = (triton.cdiv(N, BLOCK_N), triton.cdiv(M, BLOCK_M))
    five_kernel[grid](x, out, M, N, BLOCK_M, BLOCK_N, num_warps=num_warps)
    return out
