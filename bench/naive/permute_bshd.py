"""Sequence, heads and width to heads, width and sequence: a flat index of the output."""

import torch
import triton
import triton.language as tl

SHAPES = [{"B": 8, "S": 2048, "H": 16}]
HELD_OUT_SHAPES = [{"B": 3, "S": 513, "H": 5}]


def reference(x):
    return x.permute(0, 2, 3, 1).contiguous()


def inputs(B=8, S=2048, H=16, D=64, device="cuda"):
    return (torch.randn(B, S, H, D, dtype=torch.float16, device=device),)


@triton.jit
def permute_kernel(in_ptr, out_ptr, B, S, H, D, BLOCK_SIZE: tl.constexpr):
    block_start = tl.program_id(0) * BLOCK_SIZE
    offsets = block_start + tl.arange(0, BLOCK_SIZE)
    mask = offsets < B * S * H * D
    s = offsets % S
    tmp = offsets // S
    d = tmp % D
    tmp = tmp // D
    h = tmp % H
    b = tmp // H
    src = ((b * S + s) * H + h) * D + d
    val = tl.load(in_ptr + src, mask=mask)
    tl.store(out_ptr + offsets, val, mask=mask)


def kernel(x):
    B, S, H, D = x.shape
    out = torch.empty((B, H, D, S), dtype=x.dtype, device=x.device)
    n = x.numel()
    grid = lambda META: (triton.cdiv(n, META["BLOCK_SIZE"]),)
    permute_kernel[grid](x, out, B, S, H, D, BLOCK_SIZE=256)
    return out
