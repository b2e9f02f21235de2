"""Expected: "524,288 blocks of 1 warp, one start every 0.601 ns". One for 32 elements."""

import torch
import triton
import triton.language as tl


def inputs(N=2**24, device="cuda"):
    return (torch.randn(N, device=device),)


def reference(x):
    return torch.relu(x)


@triton.jit
def small_kernel(x, out, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, tl.maximum(tl.load(x + at), 0.0))


def kernel(x):
    out = torch.empty_like(x)
    small_kernel[(x.numel() // 32,)](x, out, BLOCK=32, num_warps=1)
    return out
