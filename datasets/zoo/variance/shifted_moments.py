"""One pass over sums of x - c and (x - c)², with c the row's first element against cancellation."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.variance.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "ROWS": [1, 2, 4, 8],
    "BLOCK": [32, 64, 128, 256, 512, 1024, 2048],
    "STAGES": [1, 2, 4],
    "num_warps": [1, 2, 4, 8],
}


@triton.jit
def moments_kernel(
    x_ptr, mean_ptr, variance_ptr, M, N,
    ROWS: tl.constexpr, BLOCK: tl.constexpr, STAGES: tl.constexpr,
):  # fmt: skip
    top = tl.program_id(0) * ROWS
    rows = top + tl.arange(0, ROWS)
    shift = tl.load(x_ptr + rows * N, mask=rows < M, other=0.0).to(tl.float32)
    tile = tl.make_block_ptr(x_ptr, (M, N), (N, 1), (top, 0), (ROWS, BLOCK), (1, 0))
    once = tl.zeros((ROWS,), dtype=tl.float32)
    twice = tl.zeros((ROWS,), dtype=tl.float32)
    for start in tl.range(0, N, BLOCK, num_stages=STAGES):
        x = tl.load(tile, boundary_check=(0, 1), padding_option="zero").to(tl.float32)
        cols = start + tl.arange(0, BLOCK)[None, :]
        x = tl.where(cols < N, x - shift[:, None], 0.0)
        once += tl.sum(x, axis=1)
        twice += tl.sum(x * x, axis=1)
        tile = tl.advance(tile, (0, BLOCK))
    tl.store(mean_ptr + rows, shift + once / N, mask=rows < M)
    tl.store(variance_ptr + rows, (twice - once * once / N) / (N - 1), mask=rows < M)


def valid(params, shape):
    """One to 32 elements a thread, at most 2048 chunks, none far longer than a row."""
    held = params["ROWS"] * params["BLOCK"] / (32 * params["num_warps"])
    chunks = shape["N"] / params["BLOCK"] <= 2048 and params["BLOCK"] < 4 * shape["N"]
    return 1 <= held <= 32 and chunks


def kernel(x, *, ROWS=1, BLOCK=512, STAGES=2, num_warps=4):
    M, N = x.shape
    mean = torch.empty(M, dtype=torch.float32, device=x.device)
    variance = torch.empty(M, dtype=torch.float32, device=x.device)
    moments_kernel[(triton.cdiv(M, ROWS),)](
        x, mean, variance, M, N, ROWS, BLOCK, STAGES, num_warps=num_warps
    )
    return mean, variance
