"""Expected: "larger tiles". Tiles of 16 x 16 read the inputs 256 times over."""

import torch
import triton
import triton.language as tl


def inputs(M=4096, N=4096, K=4096, dtype=torch.bfloat16, device="cuda"):
    return torch.randn(M, K, dtype=dtype, device=device), torch.randn(
        K, N, dtype=dtype, device=device
    )


def reference(a, b):
    return a @ b


@triton.jit
def product_kernel(a, b, out, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    columns = tl.program_id(1) * BN + tl.arange(0, BN)
    sums = tl.zeros((BM, BN), tl.float32)
    for k in range(0, K, BK):
        inner = k + tl.arange(0, BK)
        left = tl.load(a + rows[:, None] * K + inner[None, :])
        right = tl.load(b + inner[:, None] * N + columns[None, :])
        sums = tl.dot(left, right, sums)
    tl.store(out + rows[:, None] * N + columns[None, :], sums.to(tl.bfloat16))


def kernel(a, b):
    (M, K), N = a.shape, b.shape[1]
    out = torch.empty(M, N, dtype=a.dtype, device=a.device)
    grid = (M // 16, N // 16)
    product_kernel[grid](a, b, out, N, K, 16, 16, 64, num_warps=1, num_stages=3)
    return out
