"""Expected: "not coalesced". Each program reads a column of a row-major matrix."""

import torch
import triton
import triton.language as tl


def inputs(M=4096, N=4096, device="cuda"):
    return (torch.randn(M, N, device=device),)


def reference(x):
    return x.sum(0)


@triton.jit
def column_kernel(x, out, M, N, BLOCK: tl.constexpr):
    column = tl.program_id(0)
    total = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, M, BLOCK):
        row = start + tl.arange(0, BLOCK)
        total += tl.load(x + row * N + column, row < M, 0.0)
    tl.store(out + column, tl.sum(total))


def kernel(x):
    out = torch.empty(x.shape[1], device=x.device)
    column_kernel[(x.shape[1],)](x, out, *x.shape, BLOCK=1024)
    return out
