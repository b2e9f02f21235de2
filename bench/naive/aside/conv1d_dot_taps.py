"""A 1-D convolution, channels last, as a product a tap: block pointers and tl.static_range."""

import torch
import torch.nn.functional as F
import triton
import triton.language as tl

SHAPES = [{"L": 16384, "C": 512, "O": 512}]
HELD_OUT_SHAPES = [{"L": 301, "C": 96, "O": 72}]
TOLERANCE = {"rtol": 2e-2, "atol": 3e-1}


def reference(x, w):
    y = F.conv1d(F.pad(x.float().t()[None], (2, 0)), w.float().permute(2, 1, 0))
    return y[0].t().to(x.dtype)


def inputs(L=16384, C=512, O=512, device="cuda"):
    x = torch.randn(L, C, dtype=torch.float16, device=device)
    return x, torch.randn(3, C, O, dtype=torch.float16, device=device) * 0.1


@triton.jit
def conv1d(
    x, w, y, L, C, O, TAPS: tl.constexpr, BL: tl.constexpr, BO: tl.constexpr, BC: tl.constexpr
):
    i, j = tl.program_id(0), tl.program_id(1)
    acc = tl.zeros((BL, BO), dtype=tl.float32)
    for tap in tl.static_range(TAPS):
        for c in range(0, C, BC):
            rows = i * BL + tl.arange(0, BL) + tap - (TAPS - 1)
            cc = c + tl.arange(0, BC)
            xt = tl.load(
                x + rows[:, None] * C + cc[None, :],
                mask=(rows[:, None] >= 0) & (rows[:, None] < L) & (cc[None, :] < C),
                other=0.0,
            )
            wp = tl.make_block_ptr(w + tap * C * O, (C, O), (O, 1), (c, j * BO), (BC, BO), (1, 0))
            wt = tl.load(wp, boundary_check=(0, 1), padding_option="zero")
            acc += tl.dot(xt.to(tl.float32), wt.to(tl.float32))
    yp = tl.make_block_ptr(y, (L, O), (O, 1), (i * BL, j * BO), (BL, BO), (1, 0))
    tl.store(yp, acc.to(tl.float16), boundary_check=(0, 1))


def kernel(x, w):
    (L, C), O = x.shape, w.shape[2]
    y = torch.empty((L, O), dtype=x.dtype, device=x.device)
    conv1d[(triton.cdiv(L, 32), triton.cdiv(O, 32))](x, w, y, L, C, O, TAPS=3, BL=32, BO=32, BC=32)
    return y
