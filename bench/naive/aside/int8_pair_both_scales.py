"""Quantised activations and weights, both dequantised to fp32 ahead of each product of tiles."""

import torch
import triton
import triton.language as tl

SHAPES = [{"m": 2048, "n": 2048, "k": 4096}]
HELD_OUT_SHAPES = [{"m": 300, "n": 1000, "k": 1100}]
TOLERANCE = {"rtol": 2e-2, "atol": 5e-2}


def reference(a, b, sa, sb):
    return ((a.float() * sa[:, None]) @ (b.float() * sb[:, None]).t()).to(torch.float16)


def inputs(m=2048, n=2048, k=4096, device="cuda"):
    a = torch.randint(-127, 128, (m, k), dtype=torch.int8, device=device)
    b = torch.randint(-127, 128, (n, k), dtype=torch.int8, device=device)
    sa = (torch.rand(m, device=device) + 0.5) / 73
    sb = (torch.rand(n, device=device) + 0.5) * k**-0.5 / 73
    return a, b, sa, sb


@triton.jit
def q_gemm(
    a_ptr, b_ptr, sa_ptr, sb_ptr, c_ptr, m, n, k, stride_a, stride_b, stride_c,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
):  # fmt: skip
    im = tl.program_id(0) * BM + tl.arange(0, BM)
    jn = tl.program_id(1) * BN + tl.arange(0, BN)
    kk = tl.arange(0, BK)
    sa = tl.load(sa_ptr + im, mask=im < m, other=0.0)
    sb = tl.load(sb_ptr + jn, mask=jn < n, other=0.0)
    acc = tl.zeros((BM, BN), tl.float32)
    for s in range(0, k, BK):
        a = tl.load(
            a_ptr + im[:, None] * stride_a + (s + kk)[None, :],
            mask=(im < m)[:, None] & (s + kk < k)[None, :], other=0,
        )  # fmt: skip
        b = tl.load(
            b_ptr + jn[None, :] * stride_b + (s + kk)[:, None],
            mask=(jn < n)[None, :] & (s + kk < k)[:, None], other=0,
        )  # fmt: skip
        af = a.to(tl.float32) * sa[:, None]
        bf = b.to(tl.float32) * sb[None, :]
        acc += tl.dot(af, bf)
    tl.store(
        c_ptr + im[:, None] * stride_c + jn[None, :], acc.to(tl.float16),
        mask=(im < m)[:, None] & (jn < n)[None, :],
    )  # fmt: skip


def kernel(a, b, sa, sb):
    m, k = a.shape
    n = b.shape[0]
    c = torch.empty((m, n), dtype=torch.float16, device=a.device)
    q_gemm[(triton.cdiv(m, 64), triton.cdiv(n, 64))](
        a, b, sa, sb, c, m, n, k, a.stride(0), b.stride(0), c.stride(0), BM=64, BN=64, BK=32
    )
    return c
