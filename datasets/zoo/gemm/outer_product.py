"""No tensor cores: a column of x times a row of w, added up in fp32 one step of K after another."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.gemm.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "BLOCK_M": [16, 32, 64, 128],
    "BLOCK_N": [32, 64, 128],
    "UNROLL": [1, 2, 4, 8],
    "num_warps": [2, 4, 8],
    "num_stages": [1, 2],
}


@triton.jit
def outer_product_kernel(
    x_ptr, w_ptr, out_ptr, M, N, K,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, UNROLL: tl.constexpr,
):  # fmt: skip
    m = tl.program_id(1) * BLOCK_M + tl.arange(0, BLOCK_M)
    n = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for k0 in range(0, K, UNROLL):
        for step in tl.static_range(UNROLL):
            k = k0 + step
            column = tl.load(x_ptr + m * K + k, mask=(m < M) & (k < K), other=0.0)
            row = tl.load(w_ptr + k * N + n, mask=(n < N) & (k < K), other=0.0)
            acc += column.to(tl.float32)[:, None] * row.to(tl.float32)[None, :]
    inside = (m[:, None] < M) & (n[None, :] < N)
    tl.store(out_ptr + m[:, None] * N + n[None, :], acc.to(out_ptr.dtype.element_ty), mask=inside)


def valid(params, shape):
    """4 to 64 sums a thread, and problems small enough for the CUDA cores."""
    per_thread = params["BLOCK_M"] * params["BLOCK_N"] / (32 * params["num_warps"])
    small = shape["M"] * shape["N"] * shape["K"] <= 2**32 and shape["K"] <= 2048
    return small and 4 <= per_thread <= 64


def kernel(x, w, *, BLOCK_M=64, BLOCK_N=64, UNROLL=4, num_warps=4, num_stages=1):
    (M, K), N = x.shape, w.shape[1]
    out = torch.empty((M, N), dtype=x.dtype, device=x.device)
    outer_product_kernel[(triton.cdiv(N, BLOCK_N), triton.cdiv(M, BLOCK_M))](
        x, w, out, M, N, K, BLOCK_M, BLOCK_N, UNROLL, num_warps=num_warps, num_stages=num_stages
    )
    return out
