"""The sum of each row, several rows a program, columns in chunks."""

import torch
import triton
import triton.language as tl

SHAPES = [{"M": 16384, "N": 4096}, {"M": 1024, "N": 20000}]
SPACE = {
    "ROWS": [1, 2, 4, 8, 16],
    "BLOCK": [128, 256, 512, 1024, 2048, 4096],
    "num_warps": [1, 2, 4, 8],
}
TOLERANCE = {"rtol": 1e-4, "atol": 1e-2}


def reference(x):
    return x.sum(dim=1)


def inputs(M=16384, N=4096, dtype=torch.float32, device="cuda"):
    return (torch.randn(M, N, dtype=dtype, device=device),)


@triton.jit
def row_sum_kernel(x_ptr, out_ptr, M, N, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    rows = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    total = tl.zeros((ROWS, BLOCK), dtype=tl.float32)
    for start in range(0, N, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        inside = (rows[:, None] < M) & (cols[None, :] < N)
        total += tl.load(x_ptr + rows[:, None] * N + cols[None, :], mask=inside, other=0.0)
    tl.store(out_ptr + rows, tl.sum(total, axis=1).to(out_ptr.dtype.element_ty), mask=rows < M)


def valid(params, shape):
    """Two to 128 values a thread."""
    return 2 <= params["ROWS"] * params["BLOCK"] / (32 * params["num_warps"]) <= 128


def kernel(x, *, ROWS=1, BLOCK=1024, num_warps=4):
    M, N = x.shape
    out = torch.empty(M, dtype=x.dtype, device=x.device)
    row_sum_kernel[(triton.cdiv(M, ROWS),)](x, out, M, N, ROWS, BLOCK, num_warps=num_warps)
    return out
