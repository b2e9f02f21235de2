"""A row of x at a time without tensor cores: unpack, multiply and sum in fp32."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.gemm_int4.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "BLOCK_N": [32, 64, 128, 256],
    "BYTES": [8, 16, 32],
    "SPLIT": [1, 4, 16],
    "num_warps": [1, 2, 4, 8],
}


@triton.jit
def row_kernel(
    x_ptr, packed_ptr, scale_ptr, sum_ptr, N, K, GROUP: tl.constexpr,
    BLOCK_N: tl.constexpr, BYTES: tl.constexpr, SPLIT: tl.constexpr,
):  # fmt: skip
    row, part = tl.program_id(1), tl.program_id(2)
    n = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    at = tl.arange(0, BYTES)
    total = tl.zeros((BLOCK_N,), dtype=tl.float32)
    for k0 in range(part * 2 * BYTES, K, SPLIT * 2 * BYTES):
        even = tl.load(x_ptr + row * K + k0 + 2 * at, mask=k0 + 2 * at < K, other=0.0)
        odd = tl.load(x_ptr + row * K + k0 + 2 * at + 1, mask=k0 + 2 * at < K, other=0.0)
        inside = (k0 + 2 * at[:, None] < K) & (n[None, :] < N)
        byte_ptrs = packed_ptr + (k0 // 2 + at[:, None]) * N + n[None, :]
        byte = tl.load(byte_ptrs, mask=inside, other=0).to(tl.int32)
        low = ((byte & 15) - 8).to(tl.float32) * even.to(tl.float32)[:, None]
        high = ((byte >> 4) - 8).to(tl.float32) * odd.to(tl.float32)[:, None]
        scale = tl.load(scale_ptr + k0 // GROUP * N + n, mask=n < N, other=0.0)
        total += tl.sum(low + high, axis=0) * scale.to(tl.float32)
    if SPLIT == 1:
        tl.store(sum_ptr + row * N + n, total.to(sum_ptr.dtype.element_ty), mask=n < N)
    else:
        tl.atomic_add(sum_ptr + row * N + n, total, mask=n < N, sem="relaxed")


def valid(params, shape):
    """Few rows; a step within a group; 2 to 64 bytes a thread; parts of eight steps or more."""
    step = 2 * params["BYTES"]
    apt = shape["M"] <= 16 and step <= shape["GROUP"] and shape["K"] >= 8 * step * params["SPLIT"]
    return apt and 2 <= params["BLOCK_N"] * params["BYTES"] / (32 * params["num_warps"]) <= 64


def kernel(x, packed, scales, group, *, BLOCK_N=128, BYTES=16, SPLIT=4, num_warps=4):
    (M, K), N = x.shape, packed.shape[1]
    if SPLIT == 1:
        out = torch.empty((M, N), dtype=x.dtype, device=x.device)
    else:
        out = torch.zeros((M, N), dtype=torch.float32, device=x.device)
    row_kernel[(triton.cdiv(N, BLOCK_N), M, SPLIT)](
        x, packed, scales, out, N, K, group, BLOCK_N, BYTES, SPLIT, num_warps=num_warps
    )
    return out.to(x.dtype)
