"""Both products in one loop over K: a tile of x is loaded once for two accumulators."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.gated_mlp.problem import SHAPES, TOLERANCE, inputs, itemsize, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "BLOCK_M": [16, 32, 64, 128],
    "BLOCK_N": [32, 64, 128],
    "BLOCK_K": [32, 64, 128],
    "ROWS_FIRST": [False, True],
    "num_warps": [4, 8],
    "num_stages": [2, 3, 4],
}


@triton.jit
def gated_kernel(
    x_ptr, gate_ptr, up_ptr, out_ptr, M, N, K, ROWS_FIRST: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    m = tl.program_id(0 if ROWS_FIRST else 1) * BLOCK_M + tl.arange(0, BLOCK_M)
    n = tl.program_id(1 if ROWS_FIRST else 0) * BLOCK_N + tl.arange(0, BLOCK_N)
    gated = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    linear = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for k0 in range(0, K, BLOCK_K):
        k = k0 + tl.arange(0, BLOCK_K)
        x_mask = (m[:, None] < M) & (k[None, :] < K)
        w_mask = (k[:, None] < K) & (n[None, :] < N)
        offsets = k[:, None] * N + n[None, :]
        x = tl.load(x_ptr + m[:, None] * K + k[None, :], mask=x_mask, other=0.0)
        gated = tl.dot(x, tl.load(gate_ptr + offsets, mask=w_mask, other=0.0), gated)
        linear = tl.dot(x, tl.load(up_ptr + offsets, mask=w_mask, other=0.0), linear)
    out = gated * tl.sigmoid(gated) * linear
    inside = (m[:, None] < M) & (n[None, :] < N)
    tl.store(out_ptr + m[:, None] * N + n[None, :], out.to(out_ptr.dtype.element_ty), mask=inside)


def valid(params, shape):
    """The pipelined tiles fit in shared memory, both accumulators in registers."""
    m, n, k = params["BLOCK_M"], params["BLOCK_N"], params["BLOCK_K"]
    shared = params["num_stages"] * (m + 2 * n) * k * itemsize(shape)
    return shared <= 227 * 1024 and 4 <= 2 * m * n / (32 * params["num_warps"]) <= 128


def kernel(
    x, gate, up, *, BLOCK_M=64, BLOCK_N=64, BLOCK_K=32, ROWS_FIRST=True,
    num_warps=4, num_stages=3,
):  # fmt: skip
    (M, K), N = x.shape, gate.shape[1]
    out = torch.empty((M, N), dtype=x.dtype, device=x.device)
    grid = (triton.cdiv(M, BLOCK_M), triton.cdiv(N, BLOCK_N))
    gated_kernel[grid if ROWS_FIRST else grid[::-1]](
        x, gate, up, out, M, N, K, ROWS_FIRST, BLOCK_M, BLOCK_N, BLOCK_K,
        num_warps=num_warps, num_stages=num_stages,
    )  # fmt: skip
    return out
