"""A limit that the compiler does not know to be divisible: the mask may change at any element."""

import torch
import triton
import triton.language as tl

PLANTED = "vector_width"


def inputs(N=1 << 22, device="cuda"):
    x = torch.randn(N, device=device, dtype=torch.float16)
    return x, torch.randn_like(x)


def reference(x, y):
    return x + y


@triton.jit
def add_kernel(x, y, out, n, PLANT: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    limit = n - tl.program_id(1) * 3 if PLANT else n
    mask = at < limit
    tl.store(out + at, tl.load(x + at, mask) + tl.load(y + at, mask), mask)


def kernel(x, y, *, PLANT=False, BLOCK=2048):
    out = torch.empty_like(x)
    add_kernel[(triton.cdiv(x.numel(), BLOCK),)](x, y, out, x.numel(), PLANT, BLOCK)
    return out
