"""Every element doubled: a stream through memory, and at small sizes nothing but a launch."""

import torch
import triton
import triton.language as tl

SHAPES = [{"N": 1 << 16}, {"N": 1 << 24}]
SPACE = {"BLOCK": [512, 1024, 2048], "num_warps": [4, 8]}


def reference(x):
    return x * 2


def inputs(N=1 << 24, dtype=torch.float32, device="cuda"):
    return (torch.randn(N, dtype=dtype, device=device),)


@triton.jit
def scale_kernel(x_ptr, out_ptr, N, BLOCK: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < N)
    tl.store(out_ptr + at, x * 2, mask=at < N)


def kernel(x, *, BLOCK=1024, num_warps=4):
    out = torch.empty_like(x)
    N = x.numel()
    scale_kernel[(triton.cdiv(N, BLOCK),)](x, out, N, BLOCK=BLOCK, num_warps=num_warps)
    return out
