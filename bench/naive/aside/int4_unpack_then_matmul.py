"""4-bit weights, two a byte, unpacked into fp16 by one launch and multiplied by another."""

import torch
import triton
import triton.language as tl

SHAPES = [{"M": 64, "N": 8192, "K": 8192}]
HELD_OUT_SHAPES = [{"M": 19, "N": 200, "K": 256}]
TOLERANCE = {"rtol": 2e-2, "atol": 2e-1}


def reference(x, packed, scales):
    low, high = (packed & 15).float() - 8, (packed >> 4).float() - 8
    w = torch.stack([low, high], 1).reshape(-1, packed.shape[1])
    w = (w * scales.float().repeat_interleave(128, 0)).to(x.dtype)
    return (x.float() @ w.float()).to(x.dtype)


def inputs(M=64, N=8192, K=8192, device="cuda"):
    x = torch.randn(M, K, dtype=torch.float16, device=device)
    packed = torch.randint(0, 256, (K // 2, N), dtype=torch.uint8, device=device)
    return x, packed, torch.rand(K // 128, N, dtype=torch.float16, device=device) * 0.02


@triton.jit
def unpack_kernel(packed_ptr, scales_ptr, w_ptr, K, N, BLOCK_N: tl.constexpr):
    k = tl.program_id(0)
    n = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    mask = n < N
    b = tl.load(packed_ptr + (k // 2) * N + n, mask=mask, other=0)
    q = (b >> ((k % 2) * 4)) & 0xF
    s = tl.load(scales_ptr + (k // 128) * N + n, mask=mask, other=0.0).to(tl.float32)
    w = (q.to(tl.float32) - 8.0) * s
    tl.store(w_ptr + k * N + n, w.to(tl.float16), mask=mask)


@triton.jit
def matmul_kernel(
    a_ptr, b_ptr, c_ptr, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr
):
    rm = tl.program_id(0) * BM + tl.arange(0, BM)
    rn = tl.program_id(1) * BN + tl.arange(0, BN)
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(0, K, BK):
        rk = k + tl.arange(0, BK)
        a = tl.load(
            a_ptr + rm[:, None] * K + rk[None, :],
            mask=(rm[:, None] < M) & (rk[None, :] < K), other=0.0,
        )  # fmt: skip
        b = tl.load(
            b_ptr + rk[:, None] * N + rn[None, :],
            mask=(rk[:, None] < K) & (rn[None, :] < N), other=0.0,
        )  # fmt: skip
        acc += tl.dot(a, b)
    mask = (rm[:, None] < M) & (rn[None, :] < N)
    tl.store(c_ptr + rm[:, None] * N + rn[None, :], acc.to(tl.float16), mask=mask)


def kernel(x, packed, scales):
    M, K = x.shape
    N = packed.shape[1]
    w = torch.empty((K, N), dtype=torch.float16, device=x.device)
    unpack_kernel[(K, triton.cdiv(N, 256))](packed, scales, w, K, N, BLOCK_N=256)
    out = torch.empty((M, N), dtype=x.dtype, device=x.device)
    matmul_kernel[(triton.cdiv(M, 16), triton.cdiv(N, 32))](x, w, out, M, N, K, BM=16, BN=32, BK=32)
    return out
