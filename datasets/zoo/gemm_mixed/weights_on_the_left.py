"""The transposed product: widened weights stay in registers as the left factor of wgmma."""

import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor

from solkit.datasets.zoo.gemm_mixed.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]


SPACE = {
    "COLUMNS": [64, 128],
    "ROWS": [16, 32, 64, 128, 256],
    "BLOCK_K": [64, 128],
    "num_warps": [4, 8],
    "num_stages": [2, 3, 4],
}


@triton.jit
def left_kernel(
    x_tiles, w_tiles, scale_ptr, out_ptr, M, N, K,
    COLUMNS: tl.constexpr, ROWS: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    m0, n0 = tl.program_id(1) * ROWS, tl.program_id(0) * COLUMNS
    acc = tl.zeros((COLUMNS, ROWS), dtype=tl.float32)
    for k in range(0, K, BLOCK_K):
        x = x_tiles.load([m0, k])
        w = w_tiles.load([k, n0])
        acc = tl.dot(w.T.to(x.dtype), x.T, acc)
    m, n = m0 + tl.arange(0, ROWS), n0 + tl.arange(0, COLUMNS)
    out = (acc * tl.load(scale_ptr + n, mask=n < N, other=0.0)[:, None]).T
    inside = (m[:, None] < M) & (n[None, :] < N)
    tl.store(out_ptr + m[:, None] * N + n[None, :], out.to(out_ptr.dtype.element_ty), mask=inside)


def valid(params, shape):
    """Rows start at multiples of 16 bytes; tiles fit in shared memory, sums in registers."""
    m, n, k = params["ROWS"], params["COLUMNS"], params["BLOCK_K"]
    if shape["K"] % 8 or shape["N"] % 16 or m >= 2 * shape["M"]:
        return False
    shared = params["num_stages"] * (2 * m + n) * k + 4 * m * n
    return shared <= 227 * 1024 and 8 <= m * n / (32 * params["num_warps"]) <= 64


def kernel(x, w, scale, *, COLUMNS=128, ROWS=64, BLOCK_K=64, num_warps=4, num_stages=3):
    (M, K), N = x.shape, w.shape[1]
    out = torch.empty((M, N), dtype=x.dtype, device=x.device)
    left_kernel[(triton.cdiv(N, COLUMNS), triton.cdiv(M, ROWS))](
        TensorDescriptor.from_tensor(x, [ROWS, BLOCK_K]),
        TensorDescriptor.from_tensor(w, [BLOCK_K, COLUMNS]),
        scale, out, M, N, K, COLUMNS, ROWS, BLOCK_K, num_warps=num_warps, num_stages=num_stages,
    )  # fmt: skip
    return out
