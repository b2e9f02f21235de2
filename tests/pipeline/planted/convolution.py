"""An implicit product with one stage, as left behind by debugging."""

import torch
import triton
import triton.language as tl

PLANTED = "pipeline"


def inputs(B=32, C=64, S=64, F=128, device="cuda"):
    x = torch.randn(B, S + 2, S + 2, C, device=device, dtype=torch.float16)
    return x, torch.randn(9, C, F, device=device, dtype=torch.float16)


def reference(x, w):
    S, total = x.shape[1] - 2, 0
    for tap in range(9):
        y, z = tap // 3, tap % 3
        total = total + x[:, y : y + S, z : z + S] @ w[tap]
    return total


@triton.jit
def convolve(x, w, out, S, C: tl.constexpr, F: tl.constexpr, BLOCK: tl.constexpr):
    pixel = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    batch, y, z = pixel // (S * S), pixel // S % S, pixel % S
    channel, filters = tl.arange(0, C), tl.arange(0, F)
    total = tl.zeros((BLOCK, F), tl.float32)
    for tap in range(9):
        row = (batch * (S + 2) + y + tap // 3) * (S + 2) + z + tap % 3
        value = tl.load(x + row[:, None] * C + channel[None, :])
        weight = tl.load(w + tap * C * F + channel[:, None] * F + filters[None, :])
        total = tl.dot(value, weight, total)
    tl.store(out + pixel[:, None] * F + filters[None, :], total.to(tl.float16))


def kernel(x, w, *, PLANT=False, num_warps=4):
    B, S, C, F = x.shape[0], x.shape[1] - 2, x.shape[3], w.shape[2]
    out = torch.empty(B, S, S, F, device=x.device, dtype=x.dtype)
    stages = 1 if PLANT else 3
    grid = (B * S * S // 128,)
    convolve[grid](x, w, out, S, C, F, 128, num_warps=num_warps, num_stages=stages)
    return out
