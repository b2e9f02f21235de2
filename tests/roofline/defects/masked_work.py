"""Expected: "what the problem needs". A lower triangle is multiplied as if it were full."""

import torch
import triton
import triton.language as tl


def inputs(N=4096, dtype=torch.bfloat16, device="cuda"):
    return torch.randn(N, N, dtype=dtype, device=device), torch.randn(
        N, N, dtype=dtype, device=device
    )


def reference(a, b):
    return torch.tril(torch.tril(a) @ torch.tril(b))


@triton.jit
def product_kernel(a, b, out, N, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    columns = tl.program_id(1) * BN + tl.arange(0, BN)
    sums = tl.zeros((BM, BN), tl.float32)
    for k in range(0, N, BK):
        inner = k + tl.arange(0, BK)
        left = tl.load(a + rows[:, None] * N + inner[None, :], inner[None, :] <= rows[:, None], 0.0)
        right = tl.load(
            b + inner[:, None] * N + columns[None, :], columns[None, :] <= inner[:, None], 0.0
        )
        sums = tl.dot(left, right, sums)
    sums = tl.where(columns[None, :] <= rows[:, None], sums, 0.0)
    tl.store(out + rows[:, None] * N + columns[None, :], sums.to(tl.bfloat16))


def kernel(a, b):
    N = a.shape[0]
    out = torch.empty_like(a)
    product_kernel[(N // 128, N // 128)](a, b, out, N, 128, 128, 64, num_warps=8)
    return out
