"""Expected: "fuse the two launches". The activation goes through DRAM between two launches."""

import torch
import triton
import triton.language as tl


def inputs(M=8192, N=8192, device="cuda"):
    return torch.randn(M, N, device=device), torch.randn(N, device=device)


def reference(x, bias):
    return torch.relu(x + bias).sum(1)


@triton.jit
def activate_kernel(x, bias, scratch, N, BLOCK: tl.constexpr):
    columns = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    at = tl.program_id(0) * N + columns
    tl.store(scratch + at, tl.maximum(tl.load(x + at) + tl.load(bias + columns), 0.0))


@triton.jit
def sum_kernel(scratch, out, N: tl.constexpr):
    row = tl.program_id(0)
    tl.store(out + row, tl.sum(tl.load(scratch + row * N + tl.arange(0, N))))


def kernel(x, bias):
    M, N = x.shape
    scratch = torch.empty_like(x)
    out = torch.empty(M, device=x.device)
    activate_kernel[(M, N // 2048)](x, bias, scratch, N, BLOCK=2048)
    sum_kernel[(M,)](scratch, out, N, num_warps=8)
    return out
