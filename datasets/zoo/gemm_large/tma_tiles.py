"""Tiles brought by TMA through descriptors of the host; the weights come as rows of the result."""

import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor

from solkit.datasets.zoo.gemm_large.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]


SPACE = {
    "BLOCK_M": [64, 128],
    "BLOCK_N": [128, 256],
    "BLOCK_K": [64, 128],
    "GROUP_M": [4, 8],
    "num_warps": [4, 8],
    "num_stages": [2, 3, 4],
}


@triton.jit
def tiles_kernel(
    x_tiles, w_tiles, out_ptr, M, N, K,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, GROUP_M: tl.constexpr,
):  # fmt: skip
    tiles_m, tiles_n = tl.cdiv(M, BLOCK_M), tl.cdiv(N, BLOCK_N)
    group = tl.program_id(0) // (GROUP_M * tiles_n)
    within = tl.program_id(0) % (GROUP_M * tiles_n)
    height = min(tiles_m - group * GROUP_M, GROUP_M)
    m0 = (group * GROUP_M + within % height) * BLOCK_M
    n0 = within // height * BLOCK_N
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for step in range(tl.cdiv(K, BLOCK_K)):
        x = x_tiles.load([m0, step * BLOCK_K])
        w = w_tiles.load([n0, step * BLOCK_K])
        acc = tl.dot(x, w.T, acc)
    m, n = m0 + tl.arange(0, BLOCK_M), n0 + tl.arange(0, BLOCK_N)
    at = m[:, None] * N + n[None, :]
    inside = (m[:, None] < M) & (n[None, :] < N)
    tl.store(out_ptr + at, acc.to(out_ptr.dtype.element_ty), mask=inside)


def valid(params, shape):
    """Rows start at multiples of 16 bytes; tiles fit in shared memory, the sum in registers."""
    m, n, k = params["BLOCK_M"], params["BLOCK_N"], params["BLOCK_K"]
    fits = params["num_stages"] * (m + n) * k * 2 <= 220 * 1024
    held = m * n / (32 * params["num_warps"])
    return shape["K"] % 8 == 0 and fits and 32 <= held <= 128


def kernel(x, w, *, BLOCK_M=128, BLOCK_N=128, BLOCK_K=64, GROUP_M=8, num_warps=8, num_stages=4):
    (M, K), N = x.shape, w.shape[0]
    out = torch.empty((M, N), dtype=x.dtype, device=x.device)
    tiles_kernel[(triton.cdiv(M, BLOCK_M) * triton.cdiv(N, BLOCK_N),)](
        TensorDescriptor.from_tensor(x, [BLOCK_M, BLOCK_K]),
        TensorDescriptor.from_tensor(w, [BLOCK_N, BLOCK_K]),
        out, M, N, K, BLOCK_M, BLOCK_N, BLOCK_K, GROUP_M,
        num_warps=num_warps, num_stages=num_stages,
    )  # fmt: skip
    return out
