"""Few long rows: parts of a row raise its maximum with atomics, a second kernel makes the codes."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.quantise_rows.problem import SHAPES, check, inputs, reference

__all__ = ["SHAPES", "SPACE", "check", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "SPLIT": [1, 2, 4, 8],
    "BLOCK": [128, 256, 512, 1024, 2048, 4096],
    "ROWS": [1, 2, 4],
    "num_warps": [1, 2, 4, 8],
}


@triton.jit
def largest_kernel(x_ptr, largest_ptr, M, N, length, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    rows = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    first = tl.program_id(1) * length
    largest = tl.zeros((ROWS, BLOCK), dtype=tl.float32)
    for start in range(first, min(first + length, N), BLOCK):
        cols = start + tl.arange(0, BLOCK)
        inside = (rows[:, None] < M) & (cols[None, :] < N)
        x = tl.load(x_ptr + rows[:, None] * N + cols[None, :], mask=inside, other=0.0)
        largest = tl.maximum(largest, tl.abs(x.to(tl.float32)))
    tl.atomic_max(largest_ptr + rows, tl.max(largest, axis=1), mask=rows < M, sem="relaxed")


@triton.jit
def code_kernel(
    x_ptr, codes_ptr, largest_ptr, scale_ptr, M, N, length,
    ROWS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    rows = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    largest = tl.load(largest_ptr + rows, mask=rows < M, other=1.0)
    scale = tl.maximum(largest, 1e-12) / 127.0
    if tl.program_id(1) == 0:
        tl.store(scale_ptr + rows, scale, mask=rows < M)
    first = tl.program_id(1) * length
    for start in range(first, min(first + length, N), BLOCK):
        cols = start + tl.arange(0, BLOCK)
        inside = (rows[:, None] < M) & (cols[None, :] < N)
        offsets = rows[:, None] * N + cols[None, :]
        x = tl.load(x_ptr + offsets, mask=inside, other=0.0).to(tl.float32)
        tl.store(codes_ptr + offsets, tl.floor(x / scale[:, None] + 0.5).to(tl.int8), mask=inside)


def valid(params, shape):
    """One to 64 elements a thread; parts of half a block at least."""
    held = params["ROWS"] * params["BLOCK"] / (32 * params["num_warps"])
    return 1 <= held <= 64 and params["SPLIT"] * params["BLOCK"] <= 2 * shape["N"]


def kernel(x, *, SPLIT=1, BLOCK=256, ROWS=1, num_warps=4):
    M, N = x.shape
    codes = torch.empty((M, N), dtype=torch.int8, device=x.device)
    scale = torch.empty(M, dtype=torch.float32, device=x.device)
    largest = torch.zeros(M, dtype=torch.float32, device=x.device)
    length = triton.cdiv(triton.cdiv(N, SPLIT), BLOCK) * BLOCK
    grid = (triton.cdiv(M, ROWS), triton.cdiv(N, length))
    largest_kernel[grid](x, largest, M, N, length, ROWS, BLOCK, num_warps=num_warps)
    code_kernel[grid](x, codes, largest, scale, M, N, length, ROWS, BLOCK, num_warps=num_warps)
    return codes, scale
