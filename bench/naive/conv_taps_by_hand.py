"""A causal convolution over channels and steps, [B, T, C]: taps by hand, one element a program."""

import torch
import torch.nn.functional as F
import triton
import triton.language as tl

SHAPES = [{"B": 4, "T": 1024, "C": 96, "K": 128}]
HELD_OUT_SHAPES = [{"B": 1, "T": 61, "C": 9, "K": 20}]
TOLERANCE = {"rtol": 2e-2, "atol": 2e-1}


def reference(x, w):
    return F.conv1d(F.pad(x.float().transpose(1, 2), (2, 0)), w.float()).transpose(1, 2).to(x.dtype)


def inputs(B=4, T=1024, C=96, K=128, device="cuda"):
    x = torch.randn(B, T, C, dtype=torch.float16, device=device)
    return x, torch.randn(K, C, 3, dtype=torch.float16, device=device) * 0.1


@triton.jit
def step_kernel(x, w, y, T, C, K, BK: tl.constexpr):
    b = tl.program_id(0)
    t = tl.program_id(1)
    k = tl.arange(0, BK)
    inside = k < K
    acc = tl.zeros((BK,), tl.float32)
    for c in range(0, C):
        base = x + (b * T + t) * C + c
        x0 = tl.load(base - 2 * C, mask=t >= 2, other=0.0).to(tl.float32)
        x1 = tl.load(base - C, mask=t >= 1, other=0.0).to(tl.float32)
        x2 = tl.load(base).to(tl.float32)
        wk = w + (k * C + c) * 3
        acc += x0 * tl.load(wk, mask=inside, other=0.0).to(tl.float32)
        acc += x1 * tl.load(wk + 1, mask=inside, other=0.0).to(tl.float32)
        acc += x2 * tl.load(wk + 2, mask=inside, other=0.0).to(tl.float32)
    tl.store(y + (b * T + t) * K + k, acc.to(tl.float16), mask=inside)


def kernel(x, w):
    B, T, C = x.shape
    K = w.shape[0]
    y = torch.empty((B, T, K), dtype=x.dtype, device=x.device)
    step_kernel[(B, T)](x, w, y, T, C, K, BK=triton.next_power_of_2(K))
    return y
