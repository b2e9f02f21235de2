"""Batched products of 32 by 64 and 64 by 32 matrices: a program for each row of each result."""

import torch
import triton
import triton.language as tl

SHAPES = [{"nb": 4096}]
HELD_OUT_SHAPES = [{"nb": 777}]
TOLERANCE = {"rtol": 1e-2, "atol": 1e-2}


def reference(x, w):
    return (x.float() @ w.float()).to(x.dtype)


def inputs(nb=4096, rows=32, inner=64, cols=32, dtype=torch.float16, device="cuda"):
    x = torch.randn(nb, rows, inner, dtype=dtype, device=device)
    w = torch.randn(nb, inner, cols, dtype=dtype, device=device) * 0.1
    return x, w


@triton.jit
def row_kernel(x_ptr, w_ptr, y_ptr, R, K: tl.constexpr, C: tl.constexpr):
    batch = tl.program_id(0)
    row = tl.program_id(1)
    ks = tl.arange(0, K)
    cs = tl.arange(0, C)
    x = tl.load(x_ptr + (batch * R + row) * K + ks).to(tl.float32)
    w = tl.load(w_ptr + batch * K * C + ks[:, None] * C + cs[None, :]).to(tl.float32)
    y = tl.sum(x[:, None] * w, axis=0)
    tl.store(y_ptr + (batch * R + row) * C + cs, y.to(tl.float16))


def kernel(x, w):
    nb, R, K = x.shape
    C = w.shape[2]
    y = torch.empty(nb, R, C, dtype=x.dtype, device=x.device)
    row_kernel[(nb, R)](x, w, y, R, K=K, C=C)
    return y
