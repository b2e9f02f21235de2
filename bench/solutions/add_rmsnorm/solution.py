"""Sum and RMS norm in three launches, of which each writes to memory."""

import torch
import triton
import triton.language as tl


@triton.jit
def add(x, residual, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    keep = at < n
    total = tl.load(x + at, mask=keep).to(tl.float32) + tl.load(residual + at, mask=keep).to(
        tl.float32
    )
    tl.store(out + at, total, mask=keep)


@triton.jit
def mean_square(x, out, hidden, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    total = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, hidden, BLOCK):
        at = start + tl.arange(0, BLOCK)
        value = tl.load(x + row * hidden + at, mask=at < hidden, other=0.0).to(tl.float32)
        total += value * value
    tl.store(out + row, tl.sum(total) / hidden)


@triton.jit
def scale(x, squares, weight, out, hidden, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    rms = 1.0 / tl.sqrt(tl.load(squares + row) + eps)
    for start in range(0, hidden, BLOCK):
        at = start + tl.arange(0, BLOCK)
        value = tl.load(x + row * hidden + at, mask=at < hidden).to(tl.float32)
        gain = tl.load(weight + at, mask=at < hidden).to(tl.float32)
        tl.store(out + row * hidden + at, value * rms * gain, mask=at < hidden)


def run(x, residual, weight, eps):
    rows, hidden = x.shape
    summed, y = torch.empty_like(x), torch.empty_like(x)
    squares = torch.empty(rows, dtype=torch.float32, device=x.device)
    add[(triton.cdiv(x.numel(), 256),)](x, residual, summed, x.numel(), BLOCK=256)
    mean_square[(rows,)](summed, squares, hidden, BLOCK=128)
    scale[(rows,)](summed, squares, weight, y, hidden, eps, BLOCK=128)
    return y, summed
