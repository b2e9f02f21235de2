"""Expected: "8 blocks for 132 SMs". One program for each of 8 long rows."""

import torch
import triton
import triton.language as tl


def inputs(M=8, N=2**22, device="cuda"):
    return (torch.randn(M, N, device=device),)


def reference(x):
    return x.sum(1)


@triton.jit
def row_kernel(x, out, N, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    total = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, N, BLOCK):
        total += tl.load(x + row * N + start + tl.arange(0, BLOCK))
    tl.store(out + row, tl.sum(total))


def kernel(x):
    out = torch.empty(x.shape[0], device=x.device)
    row_kernel[(x.shape[0],)](x, out, x.shape[1], BLOCK=4096)
    return out
