"""The mean first, then the squared distances from it in a second reading of the row."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.variance.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "ROWS": [1, 2, 4, 8],
    "BLOCK": [128, 256, 512, 1024, 2048, 4096],
    "KEEP": ["", "evict_last"],
    "num_warps": [1, 2, 4, 8, 16],
}


@triton.jit
def variance_kernel(
    x_ptr, mean_ptr, variance_ptr, M, N,
    ROWS: tl.constexpr, BLOCK: tl.constexpr, KEEP: tl.constexpr,
):  # fmt: skip
    rows = tl.program_id(0) * ROWS + tl.arange(0, ROWS)[:, None]
    source = x_ptr + rows * N + tl.arange(0, BLOCK)[None, :]
    lanes = tl.arange(0, BLOCK)[None, :]
    total = tl.zeros((ROWS, BLOCK), dtype=tl.float32)
    for start in range(0, N, BLOCK):
        inside = (rows < M) & (start + lanes < N)
        total += tl.load(source + start, mask=inside, other=0.0, eviction_policy=KEEP)
    mean = tl.sum(total, axis=1, keep_dims=True) / N
    spread = tl.zeros((ROWS, BLOCK), dtype=tl.float32)
    for start in range(0, N, BLOCK):
        inside = (rows < M) & (start + lanes < N)
        x = tl.load(source + start, mask=inside, other=0.0).to(tl.float32)
        apart = tl.where(inside, x - mean, 0.0)
        spread += apart * apart
    tl.store(mean_ptr + rows, mean, mask=rows < M)
    spread = tl.sum(spread, axis=1, keep_dims=True)
    tl.store(variance_ptr + rows, spread / (N - 1), mask=rows < M)


def valid(params, shape):
    """One to 64 elements a thread, no chunk far longer than a row."""
    held = params["ROWS"] * params["BLOCK"] / (32 * params["num_warps"])
    return 1 <= held <= 64 and params["BLOCK"] < 4 * shape["N"]


def kernel(x, *, ROWS=1, BLOCK=512, KEEP="", num_warps=4):
    M, N = x.shape
    mean = torch.empty(M, dtype=torch.float32, device=x.device)
    variance = torch.empty(M, dtype=torch.float32, device=x.device)
    variance_kernel[(triton.cdiv(M, ROWS),)](
        x, mean, variance, M, N, ROWS, BLOCK, KEEP, num_warps=num_warps
    )
    return mean, variance
