"""Rows of a table whose width is an argument that is not specialised."""

import torch
import triton
import triton.language as tl

PLANTED = "vector_width"


def inputs(T=32768, V=50304, D=1024, device="cuda"):
    index = torch.randint(0, V, (T,), device=device)
    return torch.randn(V, D, device=device, dtype=torch.float16), index


def reference(table, index):
    return table[index]


@triton.jit(do_not_specialize=["width"])
def gather_kernel(table, index, out, width, known_value: tl.constexpr, D: tl.constexpr):
    at = tl.program_id(0)
    row = tl.load(index + at)
    lane = tl.arange(0, D)
    step = known_value if known_value > 0 else width
    tl.store(out + at * D + lane, tl.load(table + row * step + lane))


def kernel(table, index, *, PLANT=False, num_warps=4):
    D = table.shape[1]
    out = torch.empty(index.numel(), D, device=table.device, dtype=table.dtype)
    known_count = 0 if PLANT else D
    gather_kernel[(index.numel(),)](table, index, out, D, known_count, D, num_warps=num_warps)
    return out
