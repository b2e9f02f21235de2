"""A classifier's head as a module: linear, leaky ReLU in place, log softmax over 1,000 classes."""

import torch
import torch.nn as nn
import torch.nn.functional as F
import triton
import triton.language as tl

SHAPES = [{"batch_size": 4096, "features": 512, "classes": 1000}]
HELD_OUT_SHAPES = [{"batch_size": 50, "features": 60, "classes": 90}]
TOLERANCE = {"rtol": 2e-2, "atol": 2e-2}


def reference(x, weight, bias):
    return F.log_softmax(F.leaky_relu(F.linear(x, weight, bias), 0.1), dim=1)


def inputs(batch_size=4096, features=512, classes=1000, device="cuda"):
    x = torch.randn(batch_size, features, device=device)
    weight = torch.randn(classes, features, device=device) / features**0.5
    return x, weight, torch.randn(classes, device=device)


@triton.jit
def mm_kernel(A, B, bias, C, M, N, K, BLOCK: tl.constexpr):
    pid = tl.program_id(0)
    grid_n = tl.cdiv(N, BLOCK)
    row = (pid // grid_n) * BLOCK + tl.arange(0, BLOCK)[:, None]
    col = (pid % grid_n) * BLOCK + tl.arange(0, BLOCK)[None, :]
    kk = tl.arange(0, BLOCK)
    acc = tl.zeros((BLOCK, BLOCK), dtype=tl.float32)
    for k0 in range(0, K, BLOCK):
        a = tl.load(
            A + row * K + (k0 + kk)[None, :], mask=(row < M) & ((k0 + kk)[None, :] < K), other=0.0
        )
        b = tl.load(
            B + col * K + (k0 + kk)[:, None], mask=(col < N) & ((k0 + kk)[:, None] < K), other=0.0
        )
        acc += tl.dot(a, b)
    acc += tl.load(bias + col, mask=col < N, other=0.0)
    tl.store(C + row * N + col, acc, mask=(row < M) & (col < N))


@triton.jit
def leaky_kernel(C, numel, slope, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    c = tl.load(C + i, mask=i < numel)
    tl.store(C + i, tl.where(c > 0, c, c * slope), mask=i < numel)


@triton.jit
def log_softmax_kernel(C, Y, N, BLOCK: tl.constexpr):
    r = tl.program_id(0)
    j = tl.arange(0, BLOCK)
    c = tl.load(C + r * N + j, mask=j < N, other=float("-inf"))
    top = tl.max(c, 0)
    lse = tl.log(tl.sum(tl.exp(c - top), 0)) + top
    tl.store(Y + r * N + j, c - lse, mask=j < N)


class LeakyHead(nn.Module):
    """Three launches."""

    def __init__(self, slope=0.1):
        super().__init__()
        self.slope = slope

    def forward(self, x, weight, bias):
        M, K = x.shape
        N = weight.shape[0]
        logits = torch.empty(M, N, device=x.device)
        mm_kernel[(triton.cdiv(M, 32) * triton.cdiv(N, 32),)](
            x, weight, bias, logits, M, N, K, BLOCK=32
        )
        leaky_kernel[(triton.cdiv(logits.numel(), 512),)](
            logits, logits.numel(), self.slope, BLOCK=512
        )
        out = torch.empty_like(logits)
        log_softmax_kernel[(M,)](logits, out, N, BLOCK=triton.next_power_of_2(N))
        return out


def kernel(x, weight, bias):
    return LeakyHead()(x, weight, bias)
