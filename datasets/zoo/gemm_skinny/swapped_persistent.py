"""The transposed product w @ x.T: rows of w fill the 64 rows of a warp group's instruction."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.gemm_skinny.problem import SHAPES, TOLERANCE, inputs, itemsize, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "BLOCK_N": [32, 64, 128],
    "BLOCK_K": [32, 64, 128, 256],
    "PROGRAMS": [132, 264, 528],
    "num_warps": [4, 8],
    "num_stages": [2, 3, 4, 5],
}


@triton.jit
def swapped_kernel(
    x_ptr, w_ptr, out_ptr, M, N, K,
    BLOCK_N: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    m = tl.arange(0, BLOCK_M)
    for tile in range(tl.program_id(0), tl.cdiv(N, BLOCK_N), tl.num_programs(0)):
        n = tile * BLOCK_N + tl.arange(0, BLOCK_N)
        acc = tl.zeros((BLOCK_N, BLOCK_M), dtype=tl.float32)
        for k0 in range(0, K, BLOCK_K):
            k = k0 + tl.arange(0, BLOCK_K)
            w_mask = (n[:, None] < N) & (k[None, :] < K)
            x_mask = (k[:, None] < K) & (m[None, :] < M)
            w = tl.load(w_ptr + n[:, None] * K + k[None, :], mask=w_mask, other=0.0)
            x = tl.load(x_ptr + m[None, :] * K + k[:, None], mask=x_mask, other=0.0)
            acc = tl.dot(w, x, acc)
        out = tl.trans(acc).to(out_ptr.dtype.element_ty)
        inside = (m[:, None] < M) & (n[None, :] < N)
        tl.store(out_ptr + m[:, None] * N + n[None, :], out, mask=inside)


def columns(M):
    """Columns of x.T with padding, a power of two."""
    return max(16, triton.next_power_of_2(M))


def valid(params, shape):
    """The pipelined tiles fit in shared memory; no more programs than tiles or SMs want."""
    m, n, k = columns(shape["M"]), params["BLOCK_N"], params["BLOCK_K"]
    shared = params["num_stages"] * (m + n) * k * itemsize(shape)
    needed = params["PROGRAMS"] == 132 or shape["N"] > n * (params["PROGRAMS"] // 2)
    return needed and shared <= 227 * 1024 and m * n / (32 * params["num_warps"]) >= 4


def kernel(x, w, *, BLOCK_N=64, BLOCK_K=128, PROGRAMS=132, num_warps=4, num_stages=3):
    (M, K), N = x.shape, w.shape[0]
    out = torch.empty((M, N), dtype=x.dtype, device=x.device)
    swapped_kernel[(min(PROGRAMS, triton.cdiv(N, BLOCK_N)),)](
        x, w, out, M, N, K, BLOCK_N, columns(M), BLOCK_K,
        num_warps=num_warps, num_stages=num_stages,
    )  # fmt: skip
    return out
