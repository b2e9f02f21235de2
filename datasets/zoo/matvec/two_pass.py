"""Two passes: partial sums of stretches of the rows, then a sum over the stretches."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.matvec.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "STRETCH": [512, 1024, 2048, 4096, 8192],
    "ROWS": [1, 2, 4, 8, 16],
    "BLOCK": [128, 256, 512],
    "num_warps": [1, 2, 4, 8],
}


@triton.jit
def stretch_kernel(
    w_ptr, x_ptr, part_ptr, N, K,
    STRETCH: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    part = tl.program_id(1)
    rows = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    acc = tl.zeros((ROWS, BLOCK), dtype=tl.float32)
    for step in tl.static_range(0, STRETCH, BLOCK):  # known length: all loads can go ahead
        cols = part * STRETCH + step + tl.arange(0, BLOCK)
        inside = (rows[:, None] < N) & (cols[None, :] < K)
        w = tl.load(w_ptr + rows[:, None] * K + cols[None, :], mask=inside, other=0.0)
        x = tl.load(x_ptr + cols, mask=cols < K, other=0.0)
        acc = tl.fma(w.to(tl.float32), x.to(tl.float32)[None, :], acc)
    tl.store(part_ptr + part * N + rows, tl.sum(acc, axis=1), mask=rows < N)


@triton.jit
def add_kernel(part_ptr, out_ptr, N, PARTS, BLOCK: tl.constexpr):
    rows = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), dtype=tl.float32)
    for part in range(PARTS):
        total += tl.load(part_ptr + part * N + rows, mask=rows < N, other=0.0)
    tl.store(out_ptr + rows, total.to(out_ptr.dtype.element_ty), mask=rows < N)


def valid(params, shape):
    """Two to 32 sums a thread, at most 16 steps unrolled; a stretch within twice the row."""
    steps = params["STRETCH"] / params["BLOCK"]
    near = params["STRETCH"] <= max(512, 2 * shape["K"])
    sums = params["ROWS"] * params["BLOCK"] / (32 * params["num_warps"])
    return near and steps <= 16 and 2 <= sums <= 32


def kernel(w, x, *, STRETCH=512, ROWS=4, BLOCK=256, num_warps=4):
    N, K = w.shape
    parts = triton.cdiv(K, STRETCH)
    partial = torch.empty((parts, N), dtype=torch.float32, device=w.device)
    out = torch.empty(N, dtype=w.dtype, device=w.device)
    stretch_kernel[(triton.cdiv(N, ROWS), parts)](
        w, x, partial, N, K, STRETCH, ROWS, BLOCK, num_warps=num_warps
    )
    add_kernel[(triton.cdiv(N, 128),)](partial, out, N, parts, 128, num_warps=1)
    return out
