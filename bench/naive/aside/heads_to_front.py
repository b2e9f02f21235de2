"""(batch, place, head, dim) to (batch, head, dim, place): a program a head's row at a place."""

import torch
import triton
import triton.language as tl

SHAPES = [{"B": 8, "S": 4096, "H": 16, "D": 64}]
HELD_OUT_SHAPES = [{"B": 2, "S": 517, "H": 3, "D": 64}]


def reference(k):
    return k.permute(0, 2, 3, 1).contiguous()


def inputs(B=8, S=4096, H=16, D=64, dtype=torch.bfloat16, device="cuda"):
    return (torch.randn(B, S, H, D, dtype=dtype, device=device),)


@triton.jit
def move(k, o, S, H, D: tl.constexpr):
    s = tl.program_id(0)
    h = tl.program_id(1)
    b = tl.program_id(2)
    d = tl.arange(0, D)
    v = tl.load(k + ((b * S + s) * H + h) * D + d)
    tl.store(o + ((b * H + h) * D + d) * S + s, v)


def kernel(k):
    B, S, H, D = k.shape
    o = torch.empty((B, H, D, S), dtype=k.dtype, device=k.device)
    move[(S, H, B)](k, o, S, H, D)
    return o
