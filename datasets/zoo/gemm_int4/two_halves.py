"""Two products: even columns of x with the low halves of the bytes, odd ones with the high."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.gemm_int4.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "BLOCK_M": [16, 32, 64, 128],
    "BLOCK_N": [32, 64, 128],
    "BYTES": [16, 32, 64],  # rows of packed weights a step
    "SCALE_SUM": [False, True],  # scale the step's sum instead of its weights
    "num_warps": [2, 4, 8],
    "num_stages": [1, 2, 3, 4],
}


@triton.jit
def halves_kernel(
    x_ptr, packed_ptr, scale_ptr, out_ptr, M, N, K, GROUP: tl.constexpr, SCALE_SUM: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BYTES: tl.constexpr,
):  # fmt: skip
    m = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)[:, None]
    n = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    at = tl.arange(0, BYTES)
    x_ptrs = x_ptr + m * K + 2 * at[None, :]
    byte_ptrs = packed_ptr + at[:, None] * N + n[None, :]
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for k0 in range(0, K, 2 * BYTES):  # GROUP is a multiple of 2 * BYTES
        even = tl.load(x_ptrs, mask=(m < M) & (k0 + 2 * at[None, :] < K), other=0.0)
        odd = tl.load(x_ptrs + 1, mask=(m < M) & (k0 + 2 * at[None, :] < K), other=0.0)
        byte_mask = (k0 + 2 * at[:, None] < K) & (n[None, :] < N)
        byte = tl.load(byte_ptrs, mask=byte_mask, other=0).to(tl.int32)
        scale = tl.load(scale_ptr + k0 // GROUP * N + n, mask=n < N, other=0.0)[None, :]
        low = ((byte & 15) - 8).to(even.dtype)
        high = ((byte >> 4) - 8).to(even.dtype)
        if SCALE_SUM:
            step = tl.dot(odd, high, tl.dot(even, low))
            acc += step * scale.to(tl.float32)
        else:
            acc = tl.dot(even, low * scale, acc)
            acc = tl.dot(odd, high * scale, acc)
        x_ptrs += 2 * BYTES
        byte_ptrs += BYTES * N
    out = acc.to(out_ptr.dtype.element_ty)
    tl.store(out_ptr + m * N + n[None, :], out, mask=(m < M) & (n[None, :] < N))


def valid(params, shape):
    """A step within a group; tiles fit in shared memory and in registers; rows not far beyond M."""
    m, n, b = params["BLOCK_M"], params["BLOCK_N"], params["BYTES"]
    if 2 * b > shape["GROUP"] or m >= 2 * max(16, shape["M"]):
        return False
    threads = 32 * params["num_warps"]
    shared = params["num_stages"] * (4 * m + n) * b + 4 * n * b
    sums = m * n / threads * (2 if params["SCALE_SUM"] else 1)
    return shared <= 227 * 1024 and 4 <= sums <= 128 and n * b / threads <= 64


def kernel(
    x, packed, scales, group, *, BLOCK_M=16, BLOCK_N=64, BYTES=16, SCALE_SUM=False,
    num_warps=4, num_stages=3,
):  # fmt: skip
    (M, K), N = x.shape, packed.shape[1]
    out = torch.empty((M, N), dtype=x.dtype, device=x.device)
    halves_kernel[(triton.cdiv(M, BLOCK_M), triton.cdiv(N, BLOCK_N))](
        x, packed, scales, out, M, N, K, group, SCALE_SUM, BLOCK_M, BLOCK_N, BYTES,
        num_warps=num_warps, num_stages=num_stages,
    )  # fmt: skip
    return out
