"""Expected: "fuse the two launches". A copy makes a view contiguous first."""

import torch
import triton
import triton.language as tl


def inputs(B=64, S=2048, H=8, D=64, device="cuda"):
    return (torch.randn(B, S, H, D, device=device),)


def reference(x):
    return x.transpose(1, 2).exp().sum(3)


@triton.jit
def copy_kernel(x, copy, S, H, D: tl.constexpr, BS: tl.constexpr):
    batch, head = tl.program_id(1) // H, tl.program_id(1) % H
    steps = tl.program_id(0) * BS + tl.arange(0, BS)
    inner = tl.arange(0, D)
    part = tl.load(x + ((batch * S + steps[:, None]) * H + head) * D + inner[None, :])
    tl.store(copy + (tl.program_id(1) * S + steps[:, None]) * D + inner[None, :], part)


@triton.jit
def sum_kernel(copy, out, D: tl.constexpr, BR: tl.constexpr):
    rows = tl.program_id(0) * BR + tl.arange(0, BR)
    part = tl.load(copy + rows[:, None] * D + tl.arange(0, D)[None, :])
    tl.store(out + rows, tl.sum(tl.exp(part), 1))


def kernel(x):
    B, S, H, D = x.shape
    copy = torch.empty(B, H, S, D, device=x.device)
    out = torch.empty(B, H, S, device=x.device)
    copy_kernel[(S // 64, B * H)](x, copy, S, H, D, BS=64)
    sum_kernel[(B * H * S // 64,)](copy, out, D, BR=64)
    return out
