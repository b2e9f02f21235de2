"""No tensor cores: a tile of w is multiplied by each row of x in turn and summed over threads."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.gemm_skinny.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "BLOCK_N": [1, 2, 4, 8, 16],
    "BLOCK_K": [128, 256, 512, 1024, 2048],
    "num_warps": [1, 2, 4, 8],
    "num_stages": [1, 2, 3],
}


@triton.jit
def dot_rows_kernel(
    x_ptr, w_ptr, out_ptr, M, N, K,
    ROWS: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    m = tl.arange(0, ROWS)
    n = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    acc = tl.zeros((ROWS, BLOCK_N), dtype=tl.float32)
    for k0 in range(0, K, BLOCK_K):
        k = k0 + tl.arange(0, BLOCK_K)
        w_mask = (n[:, None] < N) & (k[None, :] < K)
        w = tl.load(w_ptr + n[:, None] * K + k[None, :], mask=w_mask, other=0.0).to(tl.float32)
        x_mask = (m[:, None] < M) & (k[None, :] < K)
        x = tl.load(x_ptr + m[:, None] * K + k[None, :], mask=x_mask, other=0.0).to(tl.float32)
        acc += tl.sum(x[:, None, :] * w[None, :, :], axis=2)
    inside = (m[:, None] < M) & (n[None, :] < N)
    tl.store(out_ptr + m[:, None] * N + n[None, :], acc.to(out_ptr.dtype.element_ty), mask=inside)


def valid(params, shape):
    """At most 16 rows, and one to 128 products a thread."""
    rows = triton.next_power_of_2(shape["M"])
    products = rows * params["BLOCK_N"] * params["BLOCK_K"]
    alone = params["BLOCK_N"] * params["BLOCK_K"] >= 32 * params["num_warps"]
    return alone and rows <= 16 and 1 <= products / (32 * params["num_warps"]) <= 128


def kernel(x, w, *, BLOCK_N=1, BLOCK_K=512, num_warps=4, num_stages=2):
    (M, K), N = x.shape, w.shape[0]
    out = torch.empty((M, N), dtype=x.dtype, device=x.device)
    dot_rows_kernel[(triton.cdiv(N, BLOCK_N),)](
        x, w, out, M, N, K, triton.next_power_of_2(M), BLOCK_N, BLOCK_K,
        num_warps=num_warps, num_stages=num_stages,
    )  # fmt: skip
    return out
