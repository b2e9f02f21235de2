"""Mean squared error of two long vectors: one program walks over all of it."""

import torch
import triton
import triton.language as tl

SHAPES = [{"n": 1 << 24}]
HELD_OUT_SHAPES = [{"n": 1_000_003}]
TOLERANCE = {"rtol": 1e-3, "atol": 1e-4}


def reference(pred, target):
    return ((pred.float() - target.float()) ** 2).mean().reshape(1)


def inputs(n=1 << 24, dtype=torch.bfloat16, device="cuda"):
    return torch.randn(n, dtype=dtype, device=device), torch.randn(n, dtype=dtype, device=device)


@triton.jit
def mse_kernel(p, t, o, n, B: tl.constexpr):
    acc = tl.zeros((B,), dtype=tl.float32)
    for i in range(0, n, B):
        k = i + tl.arange(0, B)
        a = tl.load(p + k, mask=k < n, other=0.0).to(tl.float32)
        b = tl.load(t + k, mask=k < n, other=0.0).to(tl.float32)
        acc += (a - b) * (a - b)
    tl.store(o, tl.sum(acc, axis=0) / n)


def kernel(pred, target):
    loss = torch.empty(1, dtype=torch.float32, device=pred.device)
    mse_kernel[(1,)](pred, target, loss, pred.numel(), B=1024)
    return loss
