"""Matrix-vector product of int8 weights: a program for each output, dequantised block by block."""

import torch
import triton
import triton.language as tl

SHAPES = [{"out_features": 8192, "in_features": 8192}]
HELD_OUT_SHAPES = [{"out_features": 3000, "in_features": 5000}]
TOLERANCE = {"rtol": 2e-2, "atol": 5e-2}


def reference(vec, mat, scale):
    return (mat.float() @ vec.float()) * scale


def inputs(out_features=8192, in_features=8192, dtype=torch.bfloat16, device="cuda"):
    vec = torch.randn(in_features, dtype=dtype, device=device)
    mat = torch.randint(-127, 128, (out_features, in_features), dtype=torch.int8, device=device)
    scale = (torch.rand(out_features, device=device) + 0.5) * in_features**-0.5 / 73
    return vec, mat, scale


@triton.jit
def gemv_kernel(v_ptr, m_ptr, s_ptr, o_ptr, cols, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    acc = 0.0
    for start in range(0, cols, BLOCK):
        c = start + tl.arange(0, BLOCK)
        q = tl.load(m_ptr + row * cols + c, mask=c < cols, other=0)
        s = tl.load(s_ptr + row)
        v = tl.load(v_ptr + c, mask=c < cols, other=0.0)
        acc += tl.sum(q.to(tl.float32) * s * v.to(tl.float32))
    tl.store(o_ptr + row, acc)


def kernel(vec, mat, scale):
    rows, cols = mat.shape
    out = torch.empty(rows, dtype=torch.float32, device=vec.device)
    gemv_kernel[(rows,)](vec, mat, scale, out, cols, BLOCK=128)
    return out
