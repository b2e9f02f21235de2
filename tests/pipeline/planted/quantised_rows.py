"""Bytes are written behind a mask that depends on the values."""

import torch
import triton
import triton.language as tl

PLANTED = "vector_width"


def inputs(M=8192, N=4096, device="cuda"):
    return (torch.randn(M, N, device=device, dtype=torch.float16),)


def reference(x):
    scale = x.float().abs().amax(-1, keepdim=True) / 127
    return (x.float() / scale).round().to(torch.int8)


@triton.jit
def quantise_kernel(x, out, N: tl.constexpr, PLANT: tl.constexpr):
    at = tl.program_id(0) * N + tl.arange(0, N)
    value = tl.load(x + at).to(tl.float32)
    scale = tl.max(tl.abs(value), 0) / 127
    code = tl.extra.cuda.libdevice.rint(value / scale).to(tl.int8)
    if PLANT:
        tl.store(out + at, code, code != 0)
    else:
        tl.store(out + at, code)


def kernel(x, *, PLANT=False, num_warps=4):
    out = torch.zeros(x.shape, device=x.device, dtype=torch.int8)
    quantise_kernel[(x.shape[0],)](x, out, x.shape[1], PLANT, num_warps=num_warps)
    return out
