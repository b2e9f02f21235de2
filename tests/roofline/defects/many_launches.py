"""Expected: "launched 64 times". One launch a row."""

import torch
import triton
import triton.language as tl


def inputs(M=64, N=65536, device="cuda"):
    return (torch.randn(M, N, device=device),)


def reference(x):
    return torch.relu(x)


@triton.jit
def row_kernel(x, out, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, tl.maximum(tl.load(x + at), 0.0))


def kernel(x):
    out = torch.empty_like(x)
    for row in range(x.shape[0]):
        row_kernel[(x.shape[1] // 512,)](x[row], out[row], BLOCK=512)
    return out
