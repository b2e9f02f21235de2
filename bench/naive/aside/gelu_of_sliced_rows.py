"""GELU of all columns but the first: a view whose rows begin anywhere, into a plain tensor."""

import torch
import triton
import triton.language as tl

SHAPES = [{"rows": 8192, "cols": 16385}]
HELD_OUT_SHAPES = [{"rows": 31, "cols": 778}]


def reference(x):
    return torch.nn.functional.gelu(x[:, 1:].float()).to(x.dtype)


def inputs(rows=8192, cols=16385, device="cuda"):
    return (torch.randn(rows, cols, dtype=torch.bfloat16, device=device),)


@triton.jit
def gelu_rows(x_ptr, y_ptr, stride_x, stride_y, width, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    for first_col in range(0, width, BLOCK):
        col = first_col + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + row * stride_x + col, mask=col < width).to(tl.float32)
        y = 0.5 * x * (1.0 + tl.erf(x * 0.7071067811865476))
        tl.store(y_ptr + row * stride_y + col, y.to(tl.bfloat16), mask=col < width)


def kernel(x):
    part = x[:, 1:]
    out = torch.empty(part.shape, dtype=x.dtype, device=x.device)
    gelu_rows[(part.shape[0],)](part, out, part.stride(0), out.stride(0), part.shape[1], BLOCK=256)
    return out
