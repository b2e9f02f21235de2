"""Batched products of 16 x 16 matrices, one a program, as a sum over a broadcast; strided batch."""

import torch
import triton
import triton.language as tl

SHAPES = [{"B": 65536}]
HELD_OUT_SHAPES = [{"B": 777}]
TOLERANCE = {"rtol": 2e-2, "atol": 2e-2}


def reference(a, b):
    return torch.bmm(a.float(), b.float().transpose(1, 2)).to(a.dtype)


def inputs(B=65536, device="cuda"):
    pair = torch.randn(B, 2, 16, 16, dtype=torch.bfloat16, device=device)
    return pair[:, 0], pair[:, 1]


@triton.jit
def bmm_nt(a, b, c, sab, sbb, scb, D: tl.constexpr):
    i = tl.program_id(0)
    r = tl.arange(0, D)
    at = r[:, None] * D + r[None, :]
    x = tl.load(a + i * sab + at).to(tl.float32)
    y = tl.load(b + i * sbb + at).to(tl.float32)
    z = tl.sum(x[:, None, :] * y[None, :, :], axis=2)
    tl.store(c + i * scb + at, z.to(c.dtype.element_ty))


def kernel(a, b):
    c = torch.empty(a.shape, dtype=a.dtype, device=a.device)
    bmm_nt[(a.shape[0],)](a, b, c, a.stride(0), b.stride(0), c.stride(0), D=16)
    return c
