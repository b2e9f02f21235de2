"""Expected: "not coalesced". One of 16 innermost channels at a time."""

import torch
import triton
import triton.language as tl


def inputs(N=2**22, device="cuda"):
    return (torch.randn(16, N, device=device),)


def reference(x):
    return x * 2


@triton.jit
def channel_kernel(x, out, N, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    for offset in range(0, 16):
        where = (at * 16 + offset * 257) % (16 * N)
        tl.store(out + where, tl.load(x + where) * 2)


def kernel(x):
    out = torch.empty_like(x)
    channel_kernel[(x.shape[1] // 1024,)](x, out, x.shape[1], BLOCK=1024)
    return out
