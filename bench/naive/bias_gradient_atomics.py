"""Gradient of a bias: each program adds its row to the sums with atomics."""

import torch
import triton
import triton.language as tl

SHAPES = [{"rows": 16384, "cols": 2048}]
HELD_OUT_SHAPES = [{"rows": 3001, "cols": 1000}]
TOLERANCE = {"rtol": 1e-2, "atol": 5e-2}


def reference(grad_out):
    return grad_out.float().sum(dim=0)


def inputs(rows=16384, cols=2048, dtype=torch.bfloat16, device="cuda"):
    return (torch.randn(rows, cols, dtype=dtype, device=device),)


@triton.jit
def bias_grad_kernel(dy_ptr, db_ptr, stride, cols, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    offs = tl.arange(0, BLOCK)
    mask = offs < cols
    dy = tl.load(dy_ptr + row * stride + offs, mask=mask, other=0.0).to(tl.float32)
    tl.atomic_add(db_ptr + offs, dy, mask=mask)


def kernel(grad_out):
    rows, cols = grad_out.shape
    db = torch.zeros(cols, dtype=torch.float32, device=grad_out.device)
    bias_grad_kernel[(rows,)](
        grad_out, db, grad_out.stride(0), cols, BLOCK=triton.next_power_of_2(cols)
    )
    return db
