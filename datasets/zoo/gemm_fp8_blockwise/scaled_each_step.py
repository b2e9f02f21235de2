"""A step of 128 is one product, scaled by row and column as it joins the sum in fp32."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.gemm_fp8_blockwise.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]


SPACE = {
    "BLOCK_M": [16, 32, 64, 128],
    "BLOCK_N": [32, 64, 128, 256],
    "GROUP_M": [1, 8],
    "num_warps": [4, 8],
    "num_stages": [2, 3, 4],
}


@triton.jit
def scaled_kernel(
    x_ptr, w_ptr, x_scale_ptr, w_scale_ptr, out_ptr, M, N, K,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, GROUP_M: tl.constexpr,
):  # fmt: skip
    tiles_m, tiles_n = tl.cdiv(M, BLOCK_M), tl.cdiv(N, BLOCK_N)
    i, j = tl.swizzle2d(
        tl.program_id(0) // tiles_n, tl.program_id(0) % tiles_n, tiles_m, tiles_n, GROUP_M
    )
    m, n = i * BLOCK_M + tl.arange(0, BLOCK_M), j * BLOCK_N + tl.arange(0, BLOCK_N)
    k = tl.arange(0, 128)
    x_ptrs = x_ptr + m[:, None] * K + k[None, :]
    w_ptrs = w_ptr + n[None, :] * K + k[:, None]
    blocks = K // 128
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for block in range(blocks):
        x = tl.load(x_ptrs, mask=m[:, None] < M, other=0.0)
        w = tl.load(w_ptrs, mask=n[None, :] < N, other=0.0)
        x_scale = tl.load(x_scale_ptr + m * blocks + block, mask=m < M, other=0.0)
        w_scale = tl.load(w_scale_ptr + n // 128 * blocks + block, mask=n < N, other=0.0)
        acc += tl.dot(x, w) * x_scale[:, None] * w_scale[None, :]
        x_ptrs += 128
        w_ptrs += 128
    inside = (m[:, None] < M) & (n[None, :] < N)
    tl.store(out_ptr + m[:, None] * N + n[None, :], acc.to(out_ptr.dtype.element_ty), mask=inside)


def valid(params, shape):
    """The pipelined tiles fit in shared memory, two sums in registers."""
    m, n = params["BLOCK_M"], params["BLOCK_N"]
    fits = params["num_stages"] * (m + n) * 128 <= 220 * 1024
    return fits and m < 2 * shape["M"] and 4 <= m * n / (32 * params["num_warps"]) <= 64


def kernel(
    x, w, x_scale, w_scale, dtype, *, BLOCK_M=64, BLOCK_N=128, GROUP_M=8,
    num_warps=4, num_stages=3,
):  # fmt: skip
    (M, K), N = x.shape, w.shape[0]
    out = torch.empty((M, N), dtype=dtype, device=x.device)
    scaled_kernel[(triton.cdiv(M, BLOCK_M) * triton.cdiv(N, BLOCK_N),)](
        x, w, x_scale, w_scale, out, M, N, K, BLOCK_M, BLOCK_N, GROUP_M,
        num_warps=num_warps, num_stages=num_stages,
    )  # fmt: skip
    return out
