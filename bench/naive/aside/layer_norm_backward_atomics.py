"""The gradients of a layer norm: a row a program, two loops; weights' gradients by atomics."""

import torch
import triton
import triton.language as tl

SHAPES = [{"M": 8192, "N": 2048}]
HELD_OUT_SHAPES = [{"M": 45, "N": 300}]
TOLERANCE = {"rtol": 2e-2, "atol": 3e-1}


def reference(dy, x, w, mean, rstd):
    dy, xhat = dy.float(), (x.float() - mean[:, None]) * rstd[:, None]
    wdy = dy * w.float()
    c1, c2 = (wdy * xhat).mean(-1, keepdim=True), wdy.mean(-1, keepdim=True)
    dx = (wdy - xhat * c1 - c2) * rstd[:, None]
    return dx.to(x.dtype), (dy * xhat).sum(0), dy.sum(0)


def inputs(M=8192, N=2048, device="cuda"):
    x, dy = (torch.randn(M, N, dtype=torch.bfloat16, device=device) for _ in range(2))
    w = torch.randn(N, dtype=torch.bfloat16, device=device)
    return dy, x, w, x.float().mean(-1), torch.rsqrt(x.float().var(-1, unbiased=False) + 1e-5)


@triton.jit
def layer_norm_bwd_kernel(
    DY, X, W, Mean, Rstd, DX, DW, DB, stride, N, BLOCK_SIZE: tl.constexpr
):  # fmt: skip
    row = tl.program_id(0)
    DY += row * stride
    X += row * stride
    DX += row * stride
    mean = tl.load(Mean + row)
    rstd = tl.load(Rstd + row)
    c1 = tl.zeros([BLOCK_SIZE], dtype=tl.float32)
    c2 = tl.zeros([BLOCK_SIZE], dtype=tl.float32)
    for off in range(0, N, BLOCK_SIZE):
        cols = off + tl.arange(0, BLOCK_SIZE)
        mask = cols < N
        x = tl.load(X + cols, mask=mask, other=0.0).to(tl.float32)
        dy = tl.load(DY + cols, mask=mask, other=0.0).to(tl.float32)
        w = tl.load(W + cols, mask=mask, other=0.0).to(tl.float32)
        xhat = tl.where(mask, (x - mean) * rstd, 0.0)
        c1 += xhat * w * dy
        c2 += w * dy
        tl.atomic_add(DW + cols, dy * xhat, mask=mask)
        tl.atomic_add(DB + cols, dy, mask=mask)
    sum1 = tl.sum(c1, axis=0) / N
    sum2 = tl.sum(c2, axis=0) / N
    for off in range(0, N, BLOCK_SIZE):
        cols = off + tl.arange(0, BLOCK_SIZE)
        mask = cols < N
        x = tl.load(X + cols, mask=mask, other=0.0).to(tl.float32)
        dy = tl.load(DY + cols, mask=mask, other=0.0).to(tl.float32)
        w = tl.load(W + cols, mask=mask, other=0.0).to(tl.float32)
        xhat = (x - mean) * rstd
        dx = (w * dy - xhat * sum1 - sum2) * rstd
        tl.store(DX + cols, dx.to(DX.dtype.element_ty), mask=mask)


def kernel(dy, x, w, mean, rstd):
    M, N = x.shape
    dx = torch.empty_like(x)
    dw = torch.zeros(N, dtype=torch.float32, device=x.device)
    db = torch.zeros(N, dtype=torch.float32, device=x.device)
    layer_norm_bwd_kernel[(M,)](
        dy, x, w, mean, rstd, dx, dw, db, x.stride(0), N, BLOCK_SIZE=256, num_warps=4
    )
    return dx, dw, db
