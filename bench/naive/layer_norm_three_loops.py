"""Layer normalisation, a row a program, which reads the row three times in small blocks."""

import torch
import torch.nn.functional as F
import triton
import triton.language as tl

EPS = 1e-5

SHAPES = [{"M": 16384, "N": 4096}]
HELD_OUT_SHAPES = [{"M": 5003, "N": 3001}, {"M": 200, "N": 40000}]
TOLERANCE = {"rtol": 1e-2, "atol": 1e-2}


def reference(x, weight, bias):
    return F.layer_norm(x, (x.shape[-1],), weight, bias, EPS)


def inputs(M=16384, N=4096, dtype=torch.bfloat16, device="cuda"):
    x = torch.randn(M, N, dtype=dtype, device=device)
    weight = torch.randn(N, dtype=dtype, device=device)
    bias = torch.randn(N, dtype=dtype, device=device)
    return x, weight, bias


@triton.jit
def layer_norm_kernel(x_ptr, weight_ptr, bias_ptr, out_ptr, N, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    x_ptr += row * N
    out_ptr += row * N
    # the mean
    sums = tl.zeros([BLOCK], dtype=tl.float32)
    for start in range(0, N, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + cols, mask=cols < N, other=0.0).to(tl.float32)
        sums += x
    mean = tl.sum(sums, axis=0) / N
    # the variance
    squares = tl.zeros([BLOCK], dtype=tl.float32)
    for start in range(0, N, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + cols, mask=cols < N, other=0.0).to(tl.float32)
        x = tl.where(cols < N, x - mean, 0.0)
        squares += x * x
    rstd = 1 / tl.sqrt(tl.sum(squares, axis=0) / N + eps)
    # the result
    for start in range(0, N, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        mask = cols < N
        weight = tl.load(weight_ptr + cols, mask=mask)
        bias = tl.load(bias_ptr + cols, mask=mask)
        x = tl.load(x_ptr + cols, mask=mask, other=0.0).to(tl.float32)
        y = (x - mean) * rstd * weight + bias
        tl.store(out_ptr + cols, y, mask=mask)


def kernel(x, weight, bias):
    M, N = x.shape
    out = torch.empty_like(x)
    layer_norm_kernel[(M,)](x, weight, bias, out, N, EPS, BLOCK=64)
    return out
