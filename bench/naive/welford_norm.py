"""Layer norm with Welford's running mean and squares over blocks, then a second pass."""

import torch
import torch.nn.functional as F
import triton
import triton.language as tl

SHAPES = [{"M": 4096, "N": 8192}]
HELD_OUT_SHAPES = [{"M": 100, "N": 1111}]
TOLERANCE = {"rtol": 2e-2, "atol": 2e-2}


def reference(x, w, b):
    return F.layer_norm(x.float(), (x.shape[1],), w.float(), b.float(), 1e-5).to(x.dtype)


def inputs(M=4096, N=8192, dtype=torch.bfloat16, device="cuda"):
    def mk(*s):
        return torch.randn(*s, dtype=dtype, device=device)

    return mk(M, N), mk(N), mk(N)


@triton.jit
def welford_ln(X, W, B, Y, N, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    mean = tl.zeros((), tl.float32)
    m2 = tl.zeros((), tl.float32)
    count = tl.zeros((), tl.float32)
    for start in range(0, N, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        mask = cols < N
        x = tl.load(X + row * N + cols, mask=mask, other=0.0).to(tl.float32)
        nb = tl.minimum(N - start, BLOCK).to(tl.float32)
        mb = tl.sum(x, 0) / nb
        xc = tl.where(mask, x - mb, 0.0)
        m2b = tl.sum(xc * xc, 0)
        delta = mb - mean
        total = count + nb
        mean = mean + delta * nb / total
        m2 = m2 + m2b + delta * delta * count * nb / total
        count = total
    rstd = 1.0 / tl.sqrt(m2 / N + eps)
    for start in range(0, N, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        mask = cols < N
        x = tl.load(X + row * N + cols, mask=mask, other=0.0).to(tl.float32)
        w = tl.load(W + cols, mask=mask, other=0.0).to(tl.float32)
        b = tl.load(B + cols, mask=mask, other=0.0).to(tl.float32)
        tl.store(Y + row * N + cols, ((x - mean) * rstd * w + b).to(Y.dtype.element_ty), mask=mask)


def kernel(x, w, b):
    y = torch.empty_like(x)
    M, N = x.shape
    welford_ln[(M,)](x, w, b, y, N, 1e-5, BLOCK=256)
    return y
