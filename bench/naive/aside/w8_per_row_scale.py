"""bf16 activations times int8 weights stored by output channel; a helper dequantises a tile."""

import torch
import triton
import triton.language as tl

SHAPES = [{"T": 1024, "N": 4096, "K": 4096}]
HELD_OUT_SHAPES = [{"T": 70, "N": 136, "K": 96}]
TOLERANCE = {"rtol": 2e-2, "atol": 5e-1}


def reference(x, wq, ws):
    return (x.float() @ (wq.float() * ws.float()[:, None]).t()).to(x.dtype)


def inputs(T=1024, N=4096, K=4096, device="cuda"):
    x = torch.randn(T, K, dtype=torch.bfloat16, device=device)
    wq = torch.randint(-127, 128, (N, K), dtype=torch.int8, device=device)
    return x, wq, torch.rand(N, dtype=torch.float32, device=device) * 0.01


@triton.jit
def dequant(wq, scale):
    return wq.to(tl.float32) * scale


@triton.jit
def linear_w8(x, wq, ws, y, T, N, K, BT: tl.constexpr, BO: tl.constexpr, BI: tl.constexpr):
    rt = tl.program_id(0) * BT + tl.arange(0, BT)
    ro = tl.program_id(1) * BO + tl.arange(0, BO)
    acc = tl.zeros((BT, BO), dtype=tl.float32)
    i = 0
    while i < K:
        ri = i + tl.arange(0, BI)
        xb = tl.load(
            x + rt[:, None] * K + ri[None, :], mask=(rt[:, None] < T) & (ri[None, :] < K), other=0.0
        )
        wb = tl.load(
            wq + ro[None, :] * K + ri[:, None], mask=(ro[None, :] < N) & (ri[:, None] < K), other=0
        )
        sb = tl.load(ws + ro, mask=ro < N, other=0.0)
        wf = dequant(wb, sb[None, :])
        acc += tl.dot(xb.to(tl.float32), wf)
        i += BI
    tl.store(
        y + rt[:, None] * N + ro[None, :],
        acc.to(y.dtype.element_ty),
        mask=(rt[:, None] < T) & (ro[None, :] < N),
    )


def kernel(x, wq, ws):
    T, K = x.shape
    N = wq.shape[0]
    y = torch.empty((T, N), dtype=x.dtype, device=x.device)
    linear_w8[(triton.cdiv(T, 32), triton.cdiv(N, 32))](x, wq, ws, y, T, N, K, BT=32, BO=32, BI=32)
    return y
