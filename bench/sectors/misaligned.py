"""A product of slices that begin one element off: no access is wide, each request spills over."""

import torch
import triton
import triton.language as tl


def reference(x, y):
    return x[:, 1:] * y[:, :-1]


def inputs(M=2048, N=4097, device="cuda"):
    return torch.randn(M, N, device=device), torch.randn(M, N, device=device)


@triton.jit
def misaligned_kernel(x, y, out, N, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = at < N - 1
    left = tl.load(x + row * N + at + 1, inside)
    tl.store(out + row * (N - 1) + at, left * tl.load(y + row * N + at, inside), inside)


def kernel(x, y, *, BLOCK=1024):
    M, N = x.shape
    out = torch.empty(M, N - 1, device=x.device)
    misaligned_kernel[(M, triton.cdiv(N - 1, BLOCK))](x, y, out, N, BLOCK)
    return out
