"""Rows are read twice in chunks, the second time out of a cache: any length of row."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.quantise_rows.problem import SHAPES, check, inputs, reference

__all__ = ["SHAPES", "SPACE", "check", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "ROWS": [1, 2, 4],
    "BLOCK": [128, 256, 512, 1024, 2048, 4096],
    "KEEP": ["", "evict_last"],
    "num_warps": [1, 2, 4, 8, 16],
}


@triton.jit
def quantise_kernel(
    x_ptr, codes_ptr, scale_ptr, M, N, ROWS: tl.constexpr, BLOCK: tl.constexpr, KEEP: tl.constexpr
):
    rows = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    largest = tl.full((ROWS,), 1e-12, dtype=tl.float32)
    for start in range(0, N, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        inside = (rows[:, None] < M) & (cols[None, :] < N)
        place = x_ptr + rows[:, None] * N + cols[None, :]
        x = tl.load(place, mask=inside, other=0.0, eviction_policy=KEEP)
        largest = tl.maximum(largest, tl.max(tl.abs(x.to(tl.float32)), axis=1))
    scale = largest / 127
    tl.store(scale_ptr + rows, scale, mask=rows < M)
    for start in range(0, N, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        inside = (rows[:, None] < M) & (cols[None, :] < N)
        offsets = rows[:, None] * N + cols[None, :]
        x = tl.load(x_ptr + offsets, mask=inside, other=0.0).to(tl.float32)
        code = tl.floor(x / scale[:, None] + 0.5)
        tl.store(codes_ptr + offsets, code.to(tl.int8), mask=inside)


def valid(params, shape):
    """One to 128 elements a thread, no block far longer than a row."""
    held = params["ROWS"] * params["BLOCK"] / (32 * params["num_warps"])
    return 1 <= held <= 128 and params["BLOCK"] < 2 * shape["N"]


def kernel(x, *, ROWS=1, BLOCK=512, KEEP="", num_warps=4):
    M, N = x.shape
    codes = torch.empty((M, N), dtype=torch.int8, device=x.device)
    scale = torch.empty(M, dtype=torch.float32, device=x.device)
    quantise_kernel[(triton.cdiv(M, ROWS),)](
        x, codes, scale, M, N, ROWS, BLOCK, KEEP, num_warps=num_warps
    )
    return codes, scale
