"""A small matrix for each block of points: a program computes one element of one product."""

import torch
import triton
import triton.language as tl

SHAPES = [{"B": 1024, "P": 64}]
HELD_OUT_SHAPES = [{"B": 99, "P": 48}]
TOLERANCE = {"rtol": 1e-2, "atol": 1e-2}


def reference(pts, rot):
    return torch.einsum("bpi,boi->bpo", pts.float(), rot.float()).to(pts.dtype)


def inputs(B=1024, P=64, D=32, dtype=torch.float16, device="cuda"):
    pts = torch.randn(B, P, D, dtype=dtype, device=device)
    rot = torch.randn(B, D, D, dtype=dtype, device=device) * 0.2
    return pts, rot


@triton.jit
def rotate(pts, rot, out, P, D):
    pid = tl.program_id(0)
    o = pid % D
    p = (pid // D) % P
    b = pid // (D * P)
    acc = 0.0
    for i in range(0, D):
        x = tl.load(pts + b * P * D + p * D + i).to(tl.float32)
        r = tl.load(rot + b * D * D + o * D + i).to(tl.float32)
        acc += x * r
    tl.store(out + pid, acc.to(tl.float16))


def kernel(pts, rot):
    B, P, D = pts.shape
    out = torch.empty_like(pts)
    rotate[(B * P * D,)](pts, rot, out, P, D)
    return out
