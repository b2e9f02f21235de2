"""Expected: "one reduction behind the loop". Rows are added up across warps in each iteration."""

import torch
import triton
import triton.language as tl


def inputs(B=32, M=2048, N=1024, device="cuda"):
    return (torch.randn(B, M, N, device=device),)


def reference(x):
    return x.sum(1)


@triton.jit
def columns_kernel(x, out, M, N, BM: tl.constexpr, BN: tl.constexpr):
    columns = tl.program_id(0) * BN + tl.arange(0, BN)
    x += tl.program_id(1) * M * N
    total = tl.zeros((BN,), tl.float32)
    for start in range(0, M, BM):
        rows = start + tl.arange(0, BM)
        total += tl.sum(tl.load(x + rows[:, None] * N + columns[None, :]), axis=0)
    tl.store(out + tl.program_id(1) * N + columns, total)


def kernel(x):
    out = torch.empty(x.shape[0], x.shape[2], device=x.device)
    grid = (x.shape[2] // 128, x.shape[0])
    columns_kernel[grid](x, out, x.shape[1], x.shape[2], BM=8, BN=128, num_warps=8)
    return out
