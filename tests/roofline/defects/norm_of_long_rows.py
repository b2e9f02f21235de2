"""Expected: "x is read 2 times by norm, one pass after the other".

Each row is read for its sum and again for the result. The scale is shared by all rows, so that L2
holds it, although it has the most reads.
"""

import torch
import triton
import triton.language as tl


@triton.jit
def norm(x, scale, out, N, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64) * N
    squares = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, N, BLOCK):
        part = tl.load(x + row + start + tl.arange(0, BLOCK)).to(tl.float32)
        squares += part * part
    factor = tl.rsqrt(tl.sum(squares) / N)
    for start in range(0, N, BLOCK):
        at = start + tl.arange(0, BLOCK)
        part = tl.load(x + row + at).to(tl.float32) * factor
        tl.store(out + row + at, part * tl.load(scale + at).to(tl.float32))


def reference(x, scale):
    return torch.nn.functional.rms_norm(x, (x.shape[-1],), scale, 0.0)


def inputs(M=132, N=2**20, dtype=torch.bfloat16, device="cuda"):
    return torch.randn(M, N, dtype=dtype, device=device), torch.randn(N, dtype=dtype, device=device)


def kernel(x, scale):
    out = torch.empty_like(x)
    norm[(x.shape[0],)](x, scale, out, x.shape[1], BLOCK=4096, num_warps=8)
    return out
