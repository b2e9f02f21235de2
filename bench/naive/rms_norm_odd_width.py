"""RMS norm of rows of 10,243 features with a weight: pointers move on to the row, a while loop."""

import torch
import triton
import triton.language as tl

SHAPES = [{"tokens": 8192, "width": 10243}]
HELD_OUT_SHAPES = [{"tokens": 65, "width": 1001}]


def reference(x, weight):
    y = x.float() * torch.rsqrt(x.float().pow(2).mean(-1, keepdim=True) + 1e-6)
    return (y * weight.float()).to(x.dtype)


def inputs(tokens=8192, width=10243, device="cuda"):
    x = torch.randn(tokens, width, dtype=torch.float16, device=device)
    return x, torch.randn(width, dtype=torch.float16, device=device)


@triton.jit
def rms_norm(X, W, Y, stride, width, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    X += row * stride
    Y += row * stride
    squares = tl.zeros([BLOCK], dtype=tl.float32)
    off = 0
    while off < width:
        cols = off + tl.arange(0, BLOCK)
        x = tl.load(X + cols, mask=cols < width, other=0.0).to(tl.float32)
        squares += x * x
        off += BLOCK
    scale = tl.rsqrt(tl.sum(squares, axis=0) / width + eps)
    off = 0
    while off < width:
        cols = off + tl.arange(0, BLOCK)
        mask = cols < width
        x = tl.load(X + cols, mask=mask, other=0.0).to(tl.float32)
        w = tl.load(W + cols, mask=mask, other=0.0).to(tl.float32)
        tl.store(Y + cols, (x * scale * w).to(Y.dtype.element_ty), mask=mask)
        off += BLOCK


def kernel(x, weight):
    tokens, width = x.shape
    out = torch.empty_like(x)
    rms_norm[(tokens,)](x, weight, out, x.stride(0), width, 1e-6, BLOCK=512)
    return out
