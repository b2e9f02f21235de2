"""Histogram of bytes: an atomic addition to global memory for each element."""

import torch
import triton
import triton.language as tl

SHAPES = [{"n": 1 << 24}]
HELD_OUT_SHAPES = [{"n": 3_000_001}]


def reference(values):
    return torch.bincount(values.long(), minlength=256).int()


def inputs(n=1 << 24, device="cuda"):
    return (torch.randint(0, 256, (n,), dtype=torch.int32, device=device),)


@triton.jit
def hist_kernel(values_ptr, counts_ptr, n, BLOCK: tl.constexpr):
    pid = tl.program_id(0)
    idx = pid * BLOCK + tl.arange(0, BLOCK)
    mask = idx < n
    bins = tl.load(values_ptr + idx, mask=mask, other=0)
    tl.atomic_add(counts_ptr + bins, 1, mask=mask)


def kernel(values):
    counts = torch.zeros(256, dtype=torch.int32, device=values.device)
    n = values.numel()
    hist_kernel[(triton.cdiv(n, 256),)](values, counts, n, BLOCK=256)
    return counts
