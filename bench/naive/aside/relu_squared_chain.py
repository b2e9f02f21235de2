"""Squared ReLU with a scale: four launches on a flat grid, through one tensor in place."""

import torch
import triton
import triton.language as tl

SHAPES = [{"rows": 4096, "features": 8192}]
HELD_OUT_SHAPES = [{"rows": 77, "features": 1001}]
TOLERANCE = {"rtol": 2e-2, "atol": 2e-2}


def reference(x, scale):
    return (torch.relu(x.float() * scale.float()) ** 2).to(x.dtype)


def inputs(rows=4096, features=8192, device="cuda"):
    x = torch.randn(rows, features, dtype=torch.bfloat16, device=device)
    return x, torch.rand(features, dtype=torch.bfloat16, device=device)


@triton.jit
def upcast(x_ptr, buf_ptr, n, BLOCK: tl.constexpr):
    tid = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(buf_ptr + tid, tl.load(x_ptr + tid, mask=tid < n).to(tl.float32), mask=tid < n)


@triton.jit
def scale_(buf_ptr, s_ptr, n, features, BLOCK: tl.constexpr):
    tid = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    ok = tid < n
    v = tl.load(buf_ptr + tid, mask=ok)
    s = tl.load(s_ptr + tid % features, mask=ok).to(tl.float32)
    tl.store(buf_ptr + tid, v * s, mask=ok)


@triton.jit
def relu_(buf_ptr, n, BLOCK: tl.constexpr):
    tid = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(buf_ptr + tid, mask=tid < n)
    tl.store(buf_ptr + tid, tl.where(v > 0, v, 0.0), mask=tid < n)


@triton.jit
def square_downcast(buf_ptr, y_ptr, n, BLOCK: tl.constexpr):
    tid = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(buf_ptr + tid, mask=tid < n)
    tl.store(y_ptr + tid, (v * v).to(y_ptr.dtype.element_ty), mask=tid < n)


def run_chain(x, scale, block=128):
    n = x.numel()
    buf = torch.empty(x.shape, dtype=torch.float32, device=x.device)
    y = torch.empty_like(x)
    grid = (triton.cdiv(n, block),)
    upcast[grid](x, buf, n, BLOCK=block)
    scale_[grid](buf, scale, n, x.shape[1], BLOCK=block)
    relu_[grid](buf, n, BLOCK=block)
    square_downcast[grid](buf, y, n, BLOCK=block)
    return y


def kernel(x, scale):
    return run_chain(x, scale)
