"""Counts of values a row on a grid of rows and blocks: each value is added to memory."""

import torch
import triton
import triton.language as tl

SHAPES = [{"batch": 16, "length": 1048576}]
HELD_OUT_SHAPES = [{"batch": 3, "length": 10001}]


def reference(codes):
    return torch.stack([torch.bincount(row, minlength=128) for row in codes]).int()


def inputs(batch=16, length=1048576, device="cuda"):
    return (torch.randint(0, 128, (batch, length), dtype=torch.int32, device=device),)


@triton.jit
def hist_kernel(codes, hist, length, nbins, BLOCK: tl.constexpr):
    b = tl.program_id(1)
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    m = i < length
    c = tl.load(codes + b * length + i, mask=m, other=0)
    tl.atomic_add(hist + b * nbins + c, 1, mask=m)


def histogram(codes, nbins=128):
    hist = torch.zeros((codes.shape[0], nbins), dtype=torch.int32, device=codes.device)
    grid = lambda meta: (triton.cdiv(codes.shape[1], meta["BLOCK"]), codes.shape[0])
    hist_kernel[grid](codes, hist, codes.shape[1], nbins, BLOCK=256)
    return hist


def kernel(codes):
    return histogram(codes)
