"""Bias, then GELU: two launches over all elements, with the sum in memory between them."""

import torch
import torch.nn.functional as F
import triton
import triton.language as tl

SHAPES = [{"M": 16384, "N": 4096}]
HELD_OUT_SHAPES = [{"M": 1023, "N": 5003}]
TOLERANCE = {"rtol": 2e-2, "atol": 5e-3}


def reference(x, bias):
    return F.gelu(x + bias, approximate="tanh")


def inputs(M=16384, N=4096, dtype=torch.bfloat16, device="cuda"):
    x = torch.randn(M, N, dtype=dtype, device=device)
    bias = torch.randn(N, dtype=dtype, device=device)
    return x, bias


@triton.jit
def bias_kernel(x_ptr, bias_ptr, y_ptr, n_elements, N, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offs < n_elements
    x = tl.load(x_ptr + offs, mask=mask)
    bias = tl.load(bias_ptr + offs % N, mask=mask)
    tl.store(y_ptr + offs, x + bias, mask=mask)


@triton.jit
def gelu_kernel(x_ptr, y_ptr, n_elements, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offs < n_elements
    x = tl.load(x_ptr + offs, mask=mask).to(tl.float32)
    inner = 0.7978845608028654 * (x + 0.044715 * x * x * x)
    y = x * (1.0 - 1.0 / (1.0 + tl.exp(2.0 * inner)))
    tl.store(y_ptr + offs, y, mask=mask)


def kernel(x, bias):
    n_elements = x.numel()
    y = torch.empty_like(x)
    out = torch.empty_like(x)

    def grid(meta):
        return (triton.cdiv(n_elements, meta["BLOCK"]),)

    bias_kernel[grid](x, bias, y, n_elements, x.shape[1], BLOCK=128)
    gelu_kernel[grid](y, out, n_elements, BLOCK=128)
    return out
