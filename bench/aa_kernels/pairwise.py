"""For each point on a line the sum of exp(-distance) to all of them: bound by special functions."""

import torch
import triton
import triton.language as tl

SHAPES = [{"N": 4096}, {"N": 16384}]
SPACE = {"ROWS": [8, 16, 32], "COLS": [128, 256], "num_warps": [4, 8]}
TOLERANCE = {"rtol": 1e-4, "atol": 1e-5}


def reference(x):
    return torch.exp(-(x[:, None] - x[None, :]).abs()).sum(dim=1)


def inputs(N=16384, dtype=torch.float32, device="cuda"):
    return (torch.randn(N, dtype=dtype, device=device),)


@triton.jit
def pairwise_kernel(x_ptr, out_ptr, N, ROWS: tl.constexpr, COLS: tl.constexpr):
    rows = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    x = tl.load(x_ptr + rows, mask=rows < N, other=0.0)
    total = tl.zeros((ROWS, COLS), dtype=tl.float32)
    for start in range(0, N, COLS):
        cols = start + tl.arange(0, COLS)
        other = tl.load(x_ptr + cols, mask=cols < N, other=float("inf"))  # exp(-inf) adds nothing
        total += tl.exp(-tl.abs(x[:, None] - other[None, :]))
    tl.store(out_ptr + rows, tl.sum(total, axis=1), mask=rows < N)


def kernel(x, *, ROWS=16, COLS=128, num_warps=4):
    N = x.numel()
    out = torch.empty_like(x)
    grid = (triton.cdiv(N, ROWS),)
    pairwise_kernel[grid](x, out, N, ROWS=ROWS, COLS=COLS, num_warps=num_warps)
    return out
