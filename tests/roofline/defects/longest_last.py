"""Expected: "longest first". Prefix sums of a triangle, the long rows at the end."""

import torch
import triton
import triton.language as tl


def inputs(N=2048, device="cuda"):
    return (torch.randn(264, N * 16, device=device),)


def reference(x):
    rows = torch.arange(x.shape[0], device=x.device)[:, None]
    inside = torch.arange(x.shape[1], device=x.device)[None, :] < (rows + 1) * 124
    value = x
    for _ in range(16):
        value = torch.exp(-value * value)
    return torch.where(inside, value, 0.0).sum(1)


@triton.jit
def row_kernel(x, out, N, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    total = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, (row + 1) * 124, BLOCK):
        at = start + tl.arange(0, BLOCK)
        value = tl.load(x + row * N + at, at < (row + 1) * 124, 0.0)
        for _ in tl.static_range(16):
            value = tl.exp(-value * value)
        total += value
    tl.store(out + row, tl.sum(total))


def kernel(x):
    out = torch.empty(x.shape[0], device=x.device)
    row_kernel[(x.shape[0],)](x, out, x.shape[1], BLOCK=4096, num_warps=32)
    return out
