"""Expected: "not coalesced". A norm over channels whose values lie a whole image apart."""

import torch
import triton
import triton.language as tl


def inputs(B=16, C=256, S=4096, device="cuda"):
    return (torch.randn(B, C, S, device=device),)


def reference(x):
    return x / x.square().mean(1, keepdim=True).add(1e-6).sqrt()


@triton.jit
def norm_kernel(x, out, S, C: tl.constexpr):
    base = (tl.program_id(0) // S) * C * S + tl.program_id(0) % S
    at = base + tl.arange(0, C) * S
    values = tl.load(x + at)
    tl.store(out + at, values * tl.rsqrt(tl.sum(values * values) / C + 1e-6))


def kernel(x):
    out = torch.empty_like(x)
    B, C, S = x.shape
    norm_kernel[(B * S,)](x, out, S, C, num_warps=4)
    return out
