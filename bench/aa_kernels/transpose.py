"""A matrix transposed, tile by tile: reads and writes both coalesced, with a shuffle between."""

import torch
import triton
import triton.language as tl

SHAPES = [{"M": 1024, "N": 1024}, {"M": 16384, "N": 16384}]
SPACE = {"BLOCK": [32, 64], "num_warps": [4, 8]}


def reference(x):
    return x.t().contiguous()


def inputs(M=16384, N=16384, dtype=torch.float32, device="cuda"):
    return (torch.randn(M, N, dtype=dtype, device=device),)


@triton.jit
def transpose_kernel(x_ptr, out_ptr, M, N, BLOCK: tl.constexpr):
    m = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    n = tl.program_id(1).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = (m[:, None] < M) & (n[None, :] < N)
    x = tl.load(x_ptr + m[:, None] * N + n[None, :], mask=inside)
    tl.store(out_ptr + n[:, None] * M + m[None, :], tl.trans(x), mask=tl.trans(inside))


def kernel(x, *, BLOCK=64, num_warps=8):
    M, N = x.shape
    out = torch.empty((N, M), dtype=x.dtype, device=x.device)
    grid = (triton.cdiv(M, BLOCK), triton.cdiv(N, BLOCK))
    transpose_kernel[grid](x, out, M, N, BLOCK=BLOCK, num_warps=num_warps)
    return out
