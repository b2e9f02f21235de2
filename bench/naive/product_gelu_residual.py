"""A product, its GELU in place, then a residual: three launches over the same matrix."""

import torch
import torch.nn.functional as F
import triton
import triton.language as tl

SHAPES = [{"M": 8192, "N": 2048, "K": 256}]
HELD_OUT_SHAPES = [{"M": 1001, "N": 1500, "K": 200}]
TOLERANCE = {"rtol": 2e-2, "atol": 2e-2}


def reference(x, w, res):
    return F.gelu(x @ w, approximate="tanh") + res


def inputs(M=8192, N=2048, K=256, dtype=torch.bfloat16, device="cuda"):
    x = torch.randn(M, K, dtype=dtype, device=device)
    w = torch.randn(K, N, dtype=dtype, device=device) * K**-0.5
    res = torch.randn(M, N, dtype=dtype, device=device)
    return x, w, res


@triton.jit
def product_kernel(x, w, y, M, N, K, TILE: tl.constexpr, STEP: tl.constexpr):
    row = tl.program_id(0) * TILE + tl.arange(0, TILE)
    col = tl.program_id(1) * TILE + tl.arange(0, TILE)
    acc = tl.zeros((TILE, TILE), dtype=tl.float32)
    for k in range(0, K, STEP):
        kk = k + tl.arange(0, STEP)
        xs = tl.load(
            x + row[:, None] * K + kk[None, :], mask=(row[:, None] < M) & (kk[None, :] < K), other=0
        )
        ws = tl.load(
            w + kk[:, None] * N + col[None, :], mask=(kk[:, None] < K) & (col[None, :] < N), other=0
        )
        acc += tl.dot(xs, ws)
    tl.store(y + row[:, None] * N + col[None, :], acc, mask=(row[:, None] < M) & (col[None, :] < N))


@triton.jit
def gelu_inplace(y, count, BLOCK: tl.constexpr):
    e = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(y + e, mask=e < count).to(tl.float32)
    t = 0.7978845608 * (v + 0.044715 * v * v * v)
    v = v * tl.sigmoid(2.0 * t)
    tl.store(y + e, v, mask=e < count)


@triton.jit
def add_kernel(y, res, out, count, BLOCK: tl.constexpr):
    e = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    a = tl.load(y + e, mask=e < count)
    b = tl.load(res + e, mask=e < count)
    tl.store(out + e, a + b, mask=e < count)


def kernel(x, w, res):
    M, K = x.shape
    N = w.shape[1]
    y = torch.empty((M, N), dtype=x.dtype, device=x.device)
    product_kernel[(triton.cdiv(M, 64), triton.cdiv(N, 64))](x, w, y, M, N, K, TILE=64, STEP=32)
    count = y.numel()
    gelu_inplace[(triton.cdiv(count, 512),)](y, count, BLOCK=512)
    out = torch.empty_like(res)
    add_kernel[(triton.cdiv(count, 512),)](y, res, out, count, BLOCK=512)
    return out
