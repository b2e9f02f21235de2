"""Rows scaled to int8 by their largest magnitude, each row held in registers or read twice."""

import torch
import triton
import triton.language as tl

SHAPES = [{"M": 8192, "N": 8192}]
SPACE = {
    "ROWS": [1, 2, 4],
    "BLOCK": [256, 512, 1024, 2048, 4096, 8192],
    "num_warps": [1, 2, 4, 8, 16],
}


def reference(x):
    scale = x.float().abs().amax(dim=1, keepdim=True) / 127
    return (x.float() / scale).to(torch.int8), scale[:, 0]  # both round towards zero


def check(got, want):
    """Rounding may differ by one where a quotient lies at an integer."""
    codes = (got[0].int() - want[0].int()).abs().max() <= 1
    return bool(codes and torch.allclose(got[1], want[1]))


def inputs(M=8192, N=8192, dtype=torch.bfloat16, device="cuda"):
    return (torch.randn(M, N, dtype=dtype, device=device),)


@triton.jit
def quantise_kernel(x_ptr, codes_ptr, scale_ptr, M, N, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    rows = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    largest = tl.zeros((ROWS,), dtype=tl.float32)
    for start in range(0, N, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        inside = (rows[:, None] < M) & (cols[None, :] < N)
        x = tl.load(x_ptr + rows[:, None] * N + cols[None, :], mask=inside, other=0.0)
        largest = tl.maximum(largest, tl.max(tl.abs(x.to(tl.float32)), axis=1))
    scale = largest / 127
    tl.store(scale_ptr + rows, scale, mask=rows < M)
    for start in range(0, N, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        inside = (rows[:, None] < M) & (cols[None, :] < N)
        offsets = rows[:, None] * N + cols[None, :]
        x = tl.load(x_ptr + offsets, mask=inside, other=0.0).to(tl.float32)
        tl.store(codes_ptr + offsets, (x / scale[:, None]).to(tl.int8), mask=inside)


def valid(params, shape):
    """Four to 128 elements a thread."""
    return 4 <= params["ROWS"] * params["BLOCK"] / (32 * params["num_warps"]) <= 128


def kernel(x, *, ROWS=1, BLOCK=2048, num_warps=4):
    M, N = x.shape
    codes = torch.empty((M, N), dtype=torch.int8, device=x.device)
    scale = torch.empty(M, dtype=torch.float32, device=x.device)
    quantise_kernel[(triton.cdiv(M, ROWS),)](
        x, codes, scale, M, N, ROWS, BLOCK, num_warps=num_warps
    )
    return codes, scale
