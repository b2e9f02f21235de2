"""A dilated 1-D convolution, NCL: a block of one output channel a program, taps around channels."""

import torch
import torch.nn.functional as F
import triton
import triton.language as tl

SHAPES = [{"N": 16, "C": 128, "K": 128, "L": 2048}]
HELD_OUT_SHAPES = [{"N": 2, "C": 20, "K": 12, "L": 150}]
TOLERANCE = {"rtol": 2e-2, "atol": 2e-1}


def reference(x, w):
    return F.conv1d(x.float(), w.float(), padding=4, dilation=2).to(x.dtype)


def inputs(N=16, C=128, K=128, L=2048, device="cuda"):
    x = torch.randn(N, C, L, dtype=torch.float16, device=device)
    return x, torch.randn(K, C, 5, dtype=torch.float16, device=device) * 0.1


@triton.jit
def conv1d(x, w, y, C, K, L, TAPS: tl.constexpr, DIL: tl.constexpr, BL: tl.constexpr):
    n = tl.program_id(0)
    k = tl.program_id(1)
    cols = tl.program_id(2) * BL + tl.arange(0, BL)
    acc = tl.zeros([BL], tl.float32)
    for t in tl.static_range(TAPS):
        at = cols + (t - TAPS // 2) * DIL
        ok = (at >= 0) & (at < L)
        for c in range(C):
            v = tl.load(x + (n * C + c) * L + at, mask=ok, other=0.0)
            s = tl.load(w + (k * C + c) * TAPS + t)
            acc += v.to(tl.float32) * s.to(tl.float32)
    tl.store(y + (n * K + k) * L + cols, acc.to(tl.float16), mask=cols < L)


def kernel(x, w):
    N, C, L = x.shape
    K, _, T = w.shape
    y = torch.empty((N, K, L), dtype=x.dtype, device=x.device)
    conv1d[(N, K, triton.cdiv(L, 128))](x, w, y, C, K, L, TAPS=T, DIL=2, BL=128)
    return y
