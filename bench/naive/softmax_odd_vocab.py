"""Softmax over a vocabulary of odd size: three loops along a row, which begins at any element."""

import torch
import triton
import triton.language as tl

SHAPES = [{"tokens": 4096, "vocab": 50257}]
HELD_OUT_SHAPES = [{"tokens": 33, "vocab": 10007}]


def reference(logits):
    return torch.softmax(logits.float(), -1).to(logits.dtype)


def inputs(tokens=4096, vocab=50257, device="cuda"):
    return (torch.randn(tokens, vocab, dtype=torch.bfloat16, device=device),)


@triton.jit
def softmax_kernel(x_ptr, y_ptr, x_stride, y_stride, n_cols, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    x_row = x_ptr + row * x_stride
    y_row = y_ptr + row * y_stride
    peak = -float("inf")
    for start in range(0, n_cols, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        x = tl.load(x_row + cols, mask=cols < n_cols, other=-float("inf")).to(tl.float32)
        peak = tl.maximum(peak, tl.max(x, axis=0))
    total = 0.0
    for start in range(0, n_cols, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        x = tl.load(x_row + cols, mask=cols < n_cols, other=-float("inf")).to(tl.float32)
        total += tl.sum(tl.exp(x - peak), axis=0)
    for start in range(0, n_cols, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        x = tl.load(x_row + cols, mask=cols < n_cols, other=0.0).to(tl.float32)
        y = tl.exp(x - peak) / total
        tl.store(y_row + cols, y.to(y_ptr.dtype.element_ty), mask=cols < n_cols)


def kernel(logits):
    tokens, vocab = logits.shape
    out = torch.empty_like(logits)
    softmax_kernel[(tokens,)](logits, out, logits.stride(0), out.stride(0), vocab, BLOCK=512)
    return out
