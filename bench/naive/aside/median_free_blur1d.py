"""A weighted window of seven along rows: taps in a static loop, bounds by two comparisons."""

import torch
import torch.nn.functional as F
import triton
import triton.language as tl

SHAPES = [{"channels": 2048, "length": 16384}]
HELD_OUT_SHAPES = [{"channels": 19, "length": 1003}]
TOLERANCE = {"rtol": 1e-3, "atol": 1e-3}


def reference(signal, taps):
    return F.conv1d(signal[:, None], taps[None, None], padding=3)[:, 0]


def inputs(channels=2048, length=16384, device="cuda"):
    return torch.randn(channels, length, device=device), torch.rand(7, device=device)


@triton.jit
def fir(signal, taps, out, length, W: tl.constexpr, BLOCK: tl.constexpr):
    c = tl.program_id(0)
    t = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    acc = tl.zeros((BLOCK,), tl.float32)
    for w in tl.static_range(W):
        src = t + w - W // 2
        ok = (src >= 0) & (src < length)
        acc += tl.load(taps + w) * tl.load(signal + c * length + src, mask=ok, other=0.0)
    tl.store(out + c * length + t, acc, mask=t < length)


def kernel(signal, taps):
    channels, length = signal.shape
    out = torch.empty_like(signal)
    fir[(channels, triton.cdiv(length, 64))](signal, taps, out, length, W=7, BLOCK=64, num_warps=1)
    return out
