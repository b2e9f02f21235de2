"""R A Rt of 16 x 16 matrices, as in a rotation of covariances: two products a program."""

import torch
import triton
import triton.language as tl

SHAPES = [{"n": 50000}]
HELD_OUT_SHAPES = [{"n": 129}]
TOLERANCE = {"rtol": 2e-2, "atol": 2e-1}


def reference(r, a):
    return r @ a @ r.transpose(1, 2)


def inputs(n=50000, device="cuda"):
    r = torch.randn(n, 16, 16, device=device) * 0.3
    return r, torch.randn(n, 16, 16, device=device)


@triton.jit
def sandwich(R, A, O, D: tl.constexpr):
    base = tl.program_id(0) * D * D
    i = tl.arange(0, D)
    at = base + i[:, None] * D + i[None, :]
    r = tl.load(R + at)
    a = tl.load(A + at)
    t = tl.sum(r[:, :, None] * a[None, :, :], axis=1)
    o = tl.sum(t[:, None, :] * r[None, :, :], axis=2)
    tl.store(O + at, o)


def kernel(r, a):
    o = torch.empty_like(r)
    sandwich[(r.shape[0],)](r, a, o, D=16)
    return o
