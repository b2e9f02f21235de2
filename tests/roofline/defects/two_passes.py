"""Expected: "read". Rows too long for L2 are read three times over."""

import torch
import triton
import triton.language as tl


def inputs(M=264, N=2**20, device="cuda"):
    return (torch.randn(M, N, device=device),)


def reference(x):
    return torch.softmax(x, 1)


@triton.jit
def softmax_kernel(x, out, N, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    peak = tl.full((BLOCK,), float("-inf"), tl.float32)
    for start in range(0, N, BLOCK):
        peak = tl.maximum(peak, tl.load(x + row * N + start + tl.arange(0, BLOCK)))
    top = tl.max(peak)
    total = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, N, BLOCK):
        total += tl.exp(tl.load(x + row * N + start + tl.arange(0, BLOCK)) - top)
    below = tl.sum(total)
    for start in range(0, N, BLOCK):
        at = row * N + start + tl.arange(0, BLOCK)
        tl.store(out + at, tl.exp(tl.load(x + at) - top) / below)


def kernel(x):
    out = torch.empty_like(x)
    softmax_kernel[(x.shape[0],)](x, out, x.shape[1], BLOCK=4096, num_warps=8)
    return out
