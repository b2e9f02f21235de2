"""Expected: "read from DRAM by 3 launches". Each of three launches reads all of x."""

import torch
import triton
import triton.language as tl


def inputs(M=8192, N=8192, device="cuda"):
    return (torch.randn(M, N, device=device),)


def reference(x):
    return torch.nn.functional.layer_norm(x, (x.shape[1],))


@triton.jit
def mean_kernel(x, mean, N: tl.constexpr):
    row = tl.program_id(0)
    tl.store(mean + row, tl.sum(tl.load(x + row * N + tl.arange(0, N))) / N)


@triton.jit
def scale_kernel(x, mean, scale, N: tl.constexpr):
    row = tl.program_id(0)
    off = tl.load(x + row * N + tl.arange(0, N)) - tl.load(mean + row)
    tl.store(scale + row, tl.rsqrt(tl.sum(off * off) / N + 1e-5))


@triton.jit
def norm_kernel(x, mean, scale, out, N: tl.constexpr):
    row = tl.program_id(0)
    at = row * N + tl.arange(0, N)
    tl.store(out + at, (tl.load(x + at) - tl.load(mean + row)) * tl.load(scale + row))


def kernel(x):
    M, N = x.shape
    mean, scale = torch.empty(M, device=x.device), torch.empty(M, device=x.device)
    out = torch.empty_like(x)
    mean_kernel[(M,)](x, mean, N, num_warps=8)
    scale_kernel[(M,)](x, mean, scale, N, num_warps=8)
    norm_kernel[(M,)](x, mean, scale, out, N, num_warps=8)
    return out
