"""Running sums along rows, chunk after chunk, the sum so far carried over."""

import torch
import triton
import triton.language as tl

SHAPES = [{"M": 4096, "N": 8192}, {"M": 16384, "N": 1000}]
SPACE = {
    "ROWS": [1, 2, 4, 8],
    "BLOCK": [64, 128, 256, 512, 1024, 2048],
    "num_warps": [1, 2, 4, 8],
}
TOLERANCE = {"rtol": 1e-3, "atol": 1e-2}


def reference(x):
    return x.cumsum(dim=1)


def inputs(M=4096, N=8192, dtype=torch.float32, device="cuda"):
    return (torch.randn(M, N, dtype=dtype, device=device),)


@triton.jit
def cumsum_kernel(x_ptr, out_ptr, M, N, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    rows = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    before = tl.zeros((ROWS,), dtype=tl.float32)
    for start in range(0, N, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        inside = (rows[:, None] < M) & (cols[None, :] < N)
        offsets = rows[:, None] * N + cols[None, :]
        x = tl.load(x_ptr + offsets, mask=inside, other=0.0).to(tl.float32)
        sums = tl.cumsum(x, axis=1) + before[:, None]
        tl.store(out_ptr + offsets, sums.to(out_ptr.dtype.element_ty), mask=inside)
        last = tl.arange(0, BLOCK)[None, :] == BLOCK - 1
        before = tl.sum(tl.where(last, sums, 0.0), axis=1)


def valid(params, shape):
    """One to 64 elements a thread."""
    return 1 <= params["ROWS"] * params["BLOCK"] / (32 * params["num_warps"]) <= 64


def kernel(x, *, ROWS=1, BLOCK=1024, num_warps=4):
    M, N = x.shape
    out = torch.empty_like(x)
    cumsum_kernel[(triton.cdiv(M, ROWS),)](x, out, M, N, ROWS, BLOCK, num_warps=num_warps)
    return out
