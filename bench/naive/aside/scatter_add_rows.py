"""Rows are added into the rows that an index names, an atomic an element; a row a program."""

import torch
import triton
import triton.language as tl

SHAPES = [{"rows": 65536, "slots": 64, "D": 128}]
HELD_OUT_SHAPES = [{"rows": 501, "slots": 7, "D": 40}]
TOLERANCE = {"rtol": 1e-3, "atol": 1e-2}


def reference(src, index, slots):
    out = torch.zeros(slots, src.shape[1], dtype=torch.float32, device=src.device)
    return out.index_add_(0, index.long(), src.float())


def inputs(rows=65536, slots=64, D=128, device="cuda"):
    src = torch.randn(rows, D, dtype=torch.float16, device=device)
    return src, torch.randint(0, slots, (rows,), dtype=torch.int32, device=device), slots


@triton.jit
def scatter(src, index, out, D, BLOCK_D: tl.constexpr):
    r = tl.program_id(0)
    slot = tl.load(index + r)
    for d in range(0, D, BLOCK_D):
        cols = d + tl.arange(0, BLOCK_D)
        ok = cols < D
        v = tl.load(src + r * D + cols, mask=ok, other=0.0).to(tl.float32)
        tl.atomic_add(out + slot * D + cols, v, mask=ok)


def kernel(src, index, slots):
    rows, D = src.shape
    out = torch.zeros((slots, D), dtype=torch.float32, device=src.device)
    scatter[(rows,)](src, index, out, D, BLOCK_D=32)
    return out
