"""Expected: "input_precision". Exact fp32 where the tolerance allows tf32."""

import torch
import triton
import triton.language as tl


def inputs(M=2048, N=2048, K=2048, dtype=torch.float32, device="cuda"):
    return (
        torch.randn(M, K, dtype=dtype, device=device),
        torch.randn(K, N, dtype=dtype, device=device),
    )


def reference(a, b):
    return a @ b


@triton.jit
def product_kernel(a, b, out, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    columns = tl.program_id(1) * BN + tl.arange(0, BN)
    sums = tl.zeros((BM, BN), tl.float32)
    for start in range(0, K, BK):
        inner = start + tl.arange(0, BK)
        left = tl.load(a + rows[:, None] * K + inner[None, :])
        right = tl.load(b + inner[:, None] * N + columns[None, :])
        sums = tl.dot(left, right, sums, input_precision="ieee")
    at = rows[:, None].to(tl.int64) * N + columns[None, :]
    tl.store(out + at, sums)


def kernel(a, b):
    (M, K), N = a.shape, b.shape[1]
    out = torch.empty(M, N, dtype=a.dtype, device=a.device)
    grid = (M // 64, N // 64)
    product_kernel[grid](a, b, out, N, K, 64, 64, 16, num_warps=4, num_stages=3)
    return out
