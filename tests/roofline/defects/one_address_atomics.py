"""Expected: "atomics at one address wait". Each block of 256 adds its sum to the same number."""

import torch
import triton
import triton.language as tl


def inputs(N=2**25, device="cuda"):
    return (torch.randn(N, device=device),)


def reference(x):
    return x.sum()


@triton.jit
def sum_kernel(x, out, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.atomic_add(out, tl.sum(tl.load(x + at)))


def kernel(x):
    out = torch.zeros((), device=x.device)
    sum_kernel[(x.numel() // 256,)](x, out, BLOCK=256, num_warps=1)
    return out
