"""Rows whose stride hides behind a sum, so that no row is known to be aligned."""

import torch
import triton
import triton.language as tl

PLANTED = "vector_width"


def inputs(M=4096, N=4096, device="cuda"):
    return (torch.randn(M, N, device=device, dtype=torch.bfloat16),)


def reference(x):
    return torch.relu(x)


@triton.jit
def relu_kernel(x, out, stride, N, PLANT: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    step = stride + tl.program_id(1) if PLANT else stride
    for start in range(0, N, BLOCK):
        at = start + tl.arange(0, BLOCK)
        value = tl.load(x + row * step + at, at < N)
        tl.store(out + row * step + at, tl.maximum(value, 0.0), at < N)


def kernel(x, *, PLANT=False, BLOCK=2048):
    out = torch.empty_like(x)
    relu_kernel[(x.shape[0], 1)](x, out, x.stride(0), x.shape[1], PLANT, BLOCK)
    return out
