"""A tile of the result that is too large for its warps."""

import torch
import triton
import triton.language as tl

PLANTED = "spills"


def inputs(M=4096, N=4096, K=2048, device="cuda"):
    a = torch.randn(M, K, device=device, dtype=torch.float16)
    return a, torch.randn(K, N, device=device, dtype=torch.float16)


def reference(a, b):
    return a @ b


@triton.jit
def wide_kernel(a, b, c, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    columns = tl.program_id(1) * BN + tl.arange(0, BN)
    inner = tl.arange(0, BK)
    total = tl.zeros((BM, BN), tl.float32)
    for k in range(0, K, BK):
        left = tl.load(a + rows[:, None] * K + k + inner[None, :])
        right = tl.load(b + (k + inner[:, None]) * N + columns[None, :])
        total += tl.dot(left, right)
    tl.store(c + rows[:, None] * N + columns[None, :], total.to(tl.float16))


def kernel(a, b, *, PLANT=False, num_warps=4, num_stages=2):
    (M, K), N = a.shape, b.shape[1]
    BM, BN = (256, 256) if PLANT else (128, 128)
    c = torch.empty(M, N, device=a.device, dtype=a.dtype)
    wide_kernel[(M // BM, N // BN)](
        a, b, c, N, K, BM, BN, 32, num_warps=num_warps, num_stages=num_stages
    )
    return c
