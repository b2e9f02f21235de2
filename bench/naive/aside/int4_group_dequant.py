"""Product with packed 4-bit weights: zero points and scales of groups of 128."""

import torch
import triton
import triton.language as tl

SHAPES = [{"M": 512, "N": 4096, "K": 4096}]
HELD_OUT_SHAPES = [{"M": 100, "N": 1000, "K": 1024}]
TOLERANCE = {"rtol": 2e-2, "atol": 5e-2}


def reference(x, packed, scales):
    low, high = packed & 15, packed >> 4
    q = torch.stack((low, high), 1).reshape(-1, packed.shape[1]).float() - 8.0
    return (x.float() @ (q * scales.float().repeat_interleave(128, 0))).to(x.dtype)


def inputs(M=512, N=4096, K=4096, dtype=torch.float16, device="cuda"):
    x = torch.randn(M, K, dtype=dtype, device=device)
    packed = torch.randint(0, 256, (K // 2, N), dtype=torch.uint8, device=device)
    scales = (torch.rand(K // 128, N, device=device) + 0.5) * K**-0.5 / 5
    return x, packed, scales


@triton.jit
def w4a16(
    x, packed, scales, y, M, N, K,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    m = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    n = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for k0 in range(0, K, BLOCK_K):
        k = k0 + tl.arange(0, BLOCK_K)
        a = tl.load(x + m[:, None] * K + k[None, :], mask=m[:, None] < M, other=0.0)
        byte = tl.load(packed + (k // 2)[:, None] * N + n[None, :], mask=n[None, :] < N, other=0)
        nibble = (byte >> ((k % 2) * 4)[:, None]) & 15
        scale = tl.load(
            scales + (k // 128)[:, None] * N + n[None, :], mask=n[None, :] < N, other=0.0
        )
        w = (nibble.to(tl.float32) - 8.0) * scale
        acc += tl.dot(a.to(tl.float32), w)
    tl.store(
        y + m[:, None] * N + n[None, :], acc.to(tl.float16),
        mask=(m[:, None] < M) & (n[None, :] < N),
    )  # fmt: skip


def kernel(x, packed, scales):
    M, K = x.shape
    N = packed.shape[1]
    y = torch.empty((M, N), dtype=x.dtype, device=x.device)
    grid = lambda meta: (triton.cdiv(M, meta["BLOCK_M"]), triton.cdiv(N, meta["BLOCK_N"]))
    w4a16[grid](x, packed, scales, y, M, N, K, BLOCK_M=32, BLOCK_N=32, BLOCK_K=32)
    return y
