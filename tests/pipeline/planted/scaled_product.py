"""Weights are read across their rows, two bytes a thread, which no copy ahead can take."""

import torch
import triton
import triton.language as tl

PLANTED = "pipeline"


def inputs(M=2048, N=4096, K=4096, device="cuda"):
    a = torch.randn(M, K, device=device, dtype=torch.float16)
    b = torch.randn(K, N, device=device, dtype=torch.float16)
    return a, b, torch.randn(N, device=device, dtype=torch.float32)


def reference(a, b, scale):
    return (a @ b) * scale


@triton.jit
def scaled_kernel(a, b, scale, c, K, N, step, BLOCK: tl.constexpr, DEPTH: tl.constexpr):
    rows = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    columns = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inner = tl.arange(0, DEPTH)
    total = tl.zeros((BLOCK, BLOCK), tl.float32)
    for k in range(0, K, DEPTH):
        left = tl.load(a + rows[:, None] * K + k + inner[None, :])
        right = tl.load(b + (k + inner[:, None]) * N + columns[None, :] * step)
        total = tl.dot(left, right, total)
    factor = tl.load(scale + columns)
    tl.store(c + rows[:, None] * N + columns[None, :], total * factor[None, :])


def kernel(a, b, scale, *, PLANT=False, num_warps=4, num_stages=4):
    (M, K), N = a.shape, b.shape[1]
    c = torch.empty(M, N, device=a.device, dtype=torch.float32)
    step = b.stride(1) + 1 if PLANT else b.stride(1)
    scaled_kernel[(M // 128, N // 128)](
        a, b, scale, c, K, N // (2 if PLANT else 1), step, 128, 32,
        num_warps=num_warps, num_stages=num_stages,
    )  # fmt: skip
    return c
