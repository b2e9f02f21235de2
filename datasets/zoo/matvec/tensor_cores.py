"""The tensor cores: the vector stands in the first of 16 columns, the others hold zeros."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.matvec.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "BLOCK_N": [16, 32, 64, 128],
    "BLOCK_K": [16, 32, 64, 128, 256],
    "num_warps": [1, 2, 4, 8],
    "num_stages": [2, 3, 4],
}


@triton.jit
def padded_dot_kernel(w_ptr, x_ptr, out_ptr, N, K, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr):
    n = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    column = tl.arange(0, 16)[None, :]
    acc = tl.zeros((BLOCK_N, 16), dtype=tl.float32)
    for k0 in range(0, K, BLOCK_K):
        k = k0 + tl.arange(0, BLOCK_K)
        w_mask = (n[:, None] < N) & (k[None, :] < K)
        w = tl.load(w_ptr + n[:, None] * K + k[None, :], mask=w_mask, other=0.0)
        x_mask = (k[:, None] < K) & (column == 0)
        x = tl.load(x_ptr + k[:, None] + column * 0, mask=x_mask, other=0.0)
        acc = tl.dot(w, x, acc)
    tl.store(out_ptr + n, tl.sum(acc, axis=1).to(out_ptr.dtype.element_ty), mask=n < N)


def valid(params, shape):
    """The stages fit in shared memory, and each thread has an element of w to load."""
    n, k, warps = params["BLOCK_N"], params["BLOCK_K"], params["num_warps"]
    shared = params["num_stages"] * (n + 16) * k * (4 if "float32" in str(shape["dtype"]) else 2)
    near = k < 4 * shape["K"] <= 16384 * k
    return near and shared <= 227 * 1024 and n >= 16 * warps and n * k / (32 * warps) <= 256


def kernel(w, x, *, BLOCK_N=32, BLOCK_K=64, num_warps=2, num_stages=4):
    N, K = w.shape
    out = torch.empty(N, dtype=w.dtype, device=w.device)
    padded_dot_kernel[(triton.cdiv(N, BLOCK_N),)](
        w, x, out, N, K, BLOCK_N, BLOCK_K, num_warps=num_warps, num_stages=num_stages
    )
    return out
