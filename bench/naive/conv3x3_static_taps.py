"""A 3 x 3 convolution, NCHW: a row of one output channel a program, taps by tl.static_range."""

import torch
import torch.nn.functional as F
import triton
import triton.language as tl

SHAPES = [{"N": 8, "C": 64, "H": 56, "W": 56}]
HELD_OUT_SHAPES = [{"N": 1, "C": 24, "H": 17, "W": 29}]
TOLERANCE = {"rtol": 2e-2, "atol": 2e-1}


def reference(x, w):
    return F.conv2d(x.float(), w.float(), padding=1).to(x.dtype)


def inputs(N=8, C=64, H=56, W=56, device="cuda"):
    x = torch.randn(N, C, H, W, dtype=torch.float16, device=device)
    return x, torch.randn(64, C, 3, 3, dtype=torch.float16, device=device) * 0.1


@triton.jit
def conv_row(x, w, y, C, K, H, W, TAPS: tl.constexpr, BW: tl.constexpr):
    n = tl.program_id(0)
    k = tl.program_id(1)
    h = tl.program_id(2)
    cols = tl.arange(0, BW)
    acc = tl.zeros([BW], tl.float32)
    for c in range(0, C):
        for dy in tl.static_range(TAPS):
            for dx in tl.static_range(TAPS):
                hh = h + dy - TAPS // 2
                ww = cols + dx - TAPS // 2
                ok = (hh >= 0) & (hh < H) & (ww >= 0) & (ww < W)
                v = tl.load(x + ((n * C + c) * H + hh) * W + ww, mask=ok, other=0.0)
                t = tl.load(w + ((k * C + c) * TAPS + dy) * TAPS + dx)
                acc += v.to(tl.float32) * t.to(tl.float32)
    tl.store(y + ((n * K + k) * H + h) * W + cols, acc.to(y.dtype.element_ty), mask=cols < W)


def kernel(x, w):
    N, C, H, W = x.shape
    K = w.shape[0]
    y = torch.empty((N, K, H, W), dtype=x.dtype, device=x.device)
    conv_row[(N, K, H)](x, w, y, C, K, H, W, TAPS=3, BW=triton.next_power_of_2(W))
    return y
