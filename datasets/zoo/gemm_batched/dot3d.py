"""Several batch entries at once: tiles of three dimensions through a batched tl.dot."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.gemm_batched.problem import SHAPES, TOLERANCE, inputs, itemsize, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "ENTRIES": [1, 2, 4],
    "BLOCK_M": [16, 32, 64],
    "BLOCK_N": [16, 32, 64],
    "BLOCK_K": [16, 32, 64],
    "num_warps": [2, 4, 8],
}


@triton.jit
def dot3d_kernel(
    x_ptr, y_ptr, out_ptr, B, M, N, K, ENTRIES: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    b = (tl.program_id(2) * ENTRIES + tl.arange(0, ENTRIES))[:, None, None]
    m = tl.program_id(1) * BLOCK_M + tl.arange(0, BLOCK_M)
    n = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    m3, n3 = m[None, :, None], n[None, None, :]
    acc = tl.zeros((ENTRIES, BLOCK_M, BLOCK_N), dtype=tl.float32)
    for k0 in range(0, K, BLOCK_K):
        k = k0 + tl.arange(0, BLOCK_K)
        kx, ky = k[None, None, :], k[None, :, None]
        x_mask = (b < B) & (m3 < M) & (kx < K)
        y_mask = (b < B) & (ky < K) & (n3 < N)
        x = tl.load(x_ptr + b * M * K + m3 * K + kx, mask=x_mask, other=0.0)
        y = tl.load(y_ptr + b * K * N + ky * N + n3, mask=y_mask, other=0.0)
        acc = tl.dot(x, y, acc)
    inside = (b < B) & (m3 < M) & (n3 < N)
    out = acc.to(out_ptr.dtype.element_ty)
    tl.store(out_ptr + b * M * N + m3 * N + n3, out, mask=inside)


def valid(params, shape):
    """Two to 64 sums a thread; the loaded tiles stay in registers, too; tiles near the matrix."""
    entries, m, n, k = (params[x] for x in ("ENTRIES", "BLOCK_M", "BLOCK_N", "BLOCK_K"))
    threads = 32 * params["num_warps"]
    near = m < 4 * shape["M"] and n < 4 * shape["N"] and k < 4 * shape["K"]
    loaded = entries * (m + n) * k / threads * itemsize(shape) / 4
    return near and loaded <= 64 and 2 <= entries * m * n / threads <= 64


def kernel(x, y, *, ENTRIES=2, BLOCK_M=32, BLOCK_N=32, BLOCK_K=32, num_warps=4):
    (B, M, K), N = x.shape, y.shape[2]
    out = torch.empty((B, M, N), dtype=x.dtype, device=x.device)
    grid = (triton.cdiv(N, BLOCK_N), triton.cdiv(M, BLOCK_M), triton.cdiv(B, ENTRIES))
    dot3d_kernel[grid](
        x, y, out, B, M, N, K, ENTRIES, BLOCK_M, BLOCK_N, BLOCK_K, num_warps=num_warps
    )
    return out
