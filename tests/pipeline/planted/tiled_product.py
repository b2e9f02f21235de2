"""The loop over K asks for one stage: nothing is loaded ahead."""

import torch
import triton
import triton.language as tl

PLANTED = "pipeline"


def inputs(M=4096, N=4096, K=4096, device="cuda"):
    a = torch.randn(M, K, device=device, dtype=torch.bfloat16)
    return a, torch.randn(K, N, device=device, dtype=torch.bfloat16)


def reference(a, b):
    return a @ b


@triton.jit
def product_kernel(a, b, c, N, K, STAGES: tl.constexpr, BLOCK: tl.constexpr, DEPTH: tl.constexpr):
    rows = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    columns = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inner = tl.arange(0, DEPTH)
    total = tl.zeros((BLOCK, BLOCK), tl.float32)
    for k in tl.range(0, K, DEPTH, num_stages=STAGES):
        left = tl.load(a + rows[:, None] * K + k + inner[None, :])
        right = tl.load(b + (k + inner[:, None]) * N + columns[None, :])
        total = tl.dot(left, right, total)
    tl.store(c + rows[:, None] * N + columns[None, :], total.to(tl.bfloat16))


def kernel(a, b, *, PLANT=False, num_warps=8):
    (M, K), N = a.shape, b.shape[1]
    c = torch.empty(M, N, device=a.device, dtype=a.dtype)
    stages = 1 if PLANT else 3
    product_kernel[(M // 128, N // 128)](a, b, c, N, K, stages, 128, 64, num_warps=num_warps)
    return c
