"""Log-sum-exp of strips of rows: a loop for the peaks, another for the sums."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.logsumexp.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "ROWS": [1, 2, 4, 8, 16],
    "COLS": [64, 128, 256, 512, 1024, 2048],
    "num_warps": [1, 2, 4, 8],
    "num_stages": [1, 2, 4],
}


@triton.jit
def max_then_sum_kernel(x_ptr, out_ptr, M, N, ROWS: tl.constexpr, COLS: tl.constexpr):
    offs_m = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    offs_n = tl.arange(0, COLS)
    ptrs = x_ptr + offs_m.to(tl.int64)[:, None] * N + offs_n[None, :]
    biggest = tl.full((ROWS, COLS), float("-inf"), dtype=tl.float32)
    for n in range(0, N, COLS):
        mask = (offs_m[:, None] < M) & (n + offs_n[None, :] < N)
        biggest = tl.maximum(biggest, tl.load(ptrs + n, mask=mask, other=-1e30).to(tl.float32))
    peak = tl.max(biggest, axis=1)
    sums = tl.zeros((ROWS, COLS), dtype=tl.float32)
    for n in range(0, N, COLS):
        mask = (offs_m[:, None] < M) & (n + offs_n[None, :] < N)
        sums += tl.exp(tl.load(ptrs + n, mask=mask, other=-1e30).to(tl.float32) - peak[:, None])
    # A row beyond M has exp(0) everywhere: finite, and never stored.
    tl.store(out_ptr + offs_m, peak + tl.log(tl.sum(sums, axis=1)), mask=offs_m < M)


def valid(params, shape):
    """One to 32 values a thread, at least 16 programs, no tile far wider than the rows."""
    held = params["ROWS"] * params["COLS"] / (32 * params["num_warps"])
    wide = params["COLS"] <= 512 or params["COLS"] < 2 * shape["N"]
    short = shape["N"] <= 2048 * params["COLS"]  # a longer loop takes milliseconds
    return short and wide and 1 <= held <= 32 and 16 * params["ROWS"] <= max(16, shape["M"])


def kernel(x, *, ROWS=1, COLS=512, num_warps=4, num_stages=2):
    M, N = x.shape
    out = torch.empty(M, dtype=torch.float32, device=x.device)
    max_then_sum_kernel[(triton.cdiv(M, ROWS),)](
        x, out, M, N, ROWS, COLS, num_warps=num_warps, num_stages=num_stages
    )
    return out
