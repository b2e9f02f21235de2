"""Products of 32 x 16 by 16 x 32 matrices, scaled, with a shared bias: one a program, by tl.dot."""

import torch
import triton
import triton.language as tl

SHAPES = [{"B": 40000}]
HELD_OUT_SHAPES = [{"B": 333}]
TOLERANCE = {"rtol": 2e-2, "atol": 5e-2}


def reference(a, b, bias):
    return (torch.bmm(a.float(), b.float()) * 0.25 + bias.float()).to(a.dtype)


def inputs(B=40000, device="cuda"):
    a = torch.randn(B, 32, 16, dtype=torch.float16, device=device)
    b = torch.randn(B, 16, 32, dtype=torch.float16, device=device)
    return a, b, torch.randn(32, dtype=torch.float16, device=device)


@triton.jit
def small_bmm(a, b, bias, c, scale, M: tl.constexpr, K: tl.constexpr, N: tl.constexpr):
    i = tl.program_id(0)
    m = tl.arange(0, M)
    k = tl.arange(0, K)
    n = tl.arange(0, N)
    x = tl.load(a + i * M * K + m[:, None] * K + k[None, :])
    y = tl.load(b + i * K * N + k[:, None] * N + n[None, :])
    z = tl.dot(x, y) * scale + tl.load(bias + n)[None, :]
    tl.store(c + i * M * N + m[:, None] * N + n[None, :], z.to(tl.float16))


def kernel(a, b, bias):
    c = torch.empty((a.shape[0], 32, 32), dtype=a.dtype, device=a.device)
    small_bmm[(a.shape[0],)](a, b, bias, c, 0.25, M=32, K=16, N=32)
    return c
