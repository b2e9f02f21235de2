"""A tile of results; each step adds a column of x to a row of w and keeps the lesser."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.tropical_product.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]


SPACE = {
    "BLOCK_M": [32, 64, 128],
    "BLOCK_N": [32, 64, 128],
    "UNROLL": [1, 4, 8],
    "num_warps": [4, 8],
}


@triton.jit
def outer_kernel(
    x_ptr, w_ptr, out_ptr, M, N, K,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, UNROLL: tl.constexpr,
):  # fmt: skip
    m = tl.program_id(1) * BLOCK_M + tl.arange(0, BLOCK_M)
    n = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    best = tl.full((BLOCK_M, BLOCK_N), float("inf"), dtype=tl.float32)
    for k in tl.range(0, K, loop_unroll_factor=UNROLL):
        x = tl.load(x_ptr + m * K + k, mask=m < M, other=0.0).to(tl.float32)
        w = tl.load(w_ptr + k * N + n, mask=n < N, other=0.0).to(tl.float32)
        best = tl.minimum(best, x[:, None] + w[None, :])
    inside = (m[:, None] < M) & (n[None, :] < N)
    tl.store(out_ptr + m[:, None] * N + n[None, :], best, mask=inside)


def valid(params, shape):
    """Eight to 64 results a thread."""
    return 8 <= params["BLOCK_M"] * params["BLOCK_N"] / (32 * params["num_warps"]) <= 64


def kernel(x, w, *, BLOCK_M=64, BLOCK_N=64, UNROLL=4, num_warps=4):
    (M, K), N = x.shape, w.shape[1]
    out = torch.empty((M, N), dtype=torch.float32, device=x.device)
    outer_kernel[(triton.cdiv(N, BLOCK_N), triton.cdiv(M, BLOCK_M))](
        x, w, out, M, N, K, BLOCK_M, BLOCK_N, UNROLL, num_warps=num_warps
    )
    return out
