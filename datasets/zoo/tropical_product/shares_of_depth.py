"""The depth shared out among programs; the least sums of a share meet in atomic minima."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.tropical_product.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]


SPACE = {
    "SHARES": [2, 8],
    "ROWS": [8, 16, 32],
    "COLUMNS": [64, 128, 256],
    "UNROLL": [1, 4],
    "num_warps": [2, 4, 8],
}


@triton.jit
def share_kernel(
    x_ptr, w_ptr, out_ptr, M, N, K, LENGTH,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr, UNROLL: tl.constexpr,
):  # fmt: skip
    m = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    n = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    first = tl.program_id(2) * LENGTH
    x_ptrs = x_ptr + tl.minimum(m, M - 1) * K
    w_ptrs = w_ptr + tl.minimum(n, N - 1)
    best = tl.full((ROWS, COLUMNS), float("inf"), dtype=tl.float32)
    for k in tl.range(first, min(first + LENGTH, K), loop_unroll_factor=UNROLL):
        x, w = tl.load(x_ptrs + k).to(tl.float32), tl.load(w_ptrs + k * N).to(tl.float32)
        best = tl.minimum(best, x[:, None] + w[None, :])
    inside = (m[:, None] < M) & (n[None, :] < N)
    at = out_ptr + m[:, None] * N + n[None, :]
    tl.atomic_min(at, best, mask=inside, sem="relaxed")


def valid(params, shape):
    """Eight to 64 results a thread."""
    return 8 <= params["ROWS"] * params["COLUMNS"] / (32 * params["num_warps"]) <= 64


def kernel(x, w, *, SHARES=2, ROWS=32, COLUMNS=128, UNROLL=4, num_warps=4):
    (M, K), N = x.shape, w.shape[1]
    out = torch.full((M, N), float("inf"), dtype=torch.float32, device=x.device)
    length = triton.cdiv(K, SHARES)
    share_kernel[(triton.cdiv(M, ROWS), triton.cdiv(N, COLUMNS), SHARES)](
        x, w, out, M, N, K, length, ROWS, COLUMNS, UNROLL, num_warps=num_warps
    )
    return out
