"""Expected: "too little in flight". One warp walks a long row, 128 elements at a time."""

import torch
import triton
import triton.language as tl


def inputs(M=512, N=65536, device="cuda"):
    return (torch.randn(M, N, device=device),)


def reference(x):
    return x.sum(1)


@triton.jit
def sum_kernel(x, out, N, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    total = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, N, BLOCK):
        total += tl.load(x + row * N + start + tl.arange(0, BLOCK))
    tl.store(out + row, tl.sum(total))


def kernel(x):
    out = torch.empty(x.shape[0], device=x.device)
    sum_kernel[(x.shape[0],)](x, out, x.shape[1], BLOCK=128, num_warps=1)
    return out
