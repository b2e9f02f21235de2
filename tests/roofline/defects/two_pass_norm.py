"""Expected: "make one pass". Rows that fit on the chip are read twice."""

import torch
import triton
import triton.language as tl


def inputs(M=8192, N=16384, device="cuda"):
    return (torch.randn(M, N, device=device),)


def reference(x):
    return x * torch.rsqrt(x.square().mean(1, keepdim=True) + 1e-6)


@triton.jit
def norm_kernel(x, out, N, BLOCK: tl.constexpr):
    row = tl.program_id(0) * N
    squares = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, N, BLOCK):
        part = tl.load(x + row + start + tl.arange(0, BLOCK))
        squares += part * part
    scale = tl.rsqrt(tl.sum(squares) / N + 1e-6)
    for start in range(0, N, BLOCK):
        at = row + start + tl.arange(0, BLOCK)
        tl.store(out + at, tl.load(x + at) * scale)


def kernel(x):
    out = torch.empty_like(x)
    norm_kernel[(x.shape[0],)](x, out, x.shape[1], BLOCK=1024, num_warps=4)
    return out
