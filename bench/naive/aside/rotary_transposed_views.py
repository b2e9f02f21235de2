"""Rotary positions, halves, on queries that are a transposed view: a head of a token a program."""

import torch
import triton
import triton.language as tl

SHAPES = [{"B": 4, "S": 2048, "H": 32, "D": 128}]
HELD_OUT_SHAPES = [{"B": 2, "S": 51, "H": 5, "D": 64}]
TOLERANCE = {"rtol": 2e-2, "atol": 2e-2}


def reference(q, cos, sin):
    half = q.shape[-1] // 2
    q1, q2 = q[..., :half].float(), q[..., half:].float()
    rotated = torch.cat([q1 * cos - q2 * sin, q2 * cos + q1 * sin], -1)
    return rotated.to(q.dtype)


def inputs(B=4, S=2048, H=32, D=128, device="cuda"):
    q = torch.randn(B, S, H, D, dtype=torch.bfloat16, device=device).transpose(1, 2)
    angle = torch.rand(S, D // 2, device=device) * 6.28
    return q, angle.cos(), angle.sin()


@triton.jit
def rope_kernel(
    q_ptr, cos_ptr, sin_ptr, o_ptr,
    stride_qb, stride_qh, stride_qs, stride_qd, stride_ob, stride_oh, stride_os, stride_od,
    H, S, HALF: tl.constexpr,
):  # fmt: skip
    pid = tl.program_id(0)
    pos = tl.program_id(1)
    b = pid // H
    h = pid % H
    d = tl.arange(0, HALF)
    q_row = q_ptr + b * stride_qb + h * stride_qh + pos * stride_qs
    o_row = o_ptr + b * stride_ob + h * stride_oh + pos * stride_os
    q1 = tl.load(q_row + d * stride_qd).to(tl.float32)
    q2 = tl.load(q_row + (d + HALF) * stride_qd).to(tl.float32)
    cos = tl.load(cos_ptr + pos * HALF + d)
    sin = tl.load(sin_ptr + pos * HALF + d)
    tl.store(o_row + d * stride_od, (q1 * cos - q2 * sin).to(o_ptr.dtype.element_ty))
    tl.store(o_row + (d + HALF) * stride_od, (q2 * cos + q1 * sin).to(o_ptr.dtype.element_ty))


def kernel(q, cos, sin):
    B, H, S, D = q.shape
    out = torch.empty((B, H, S, D), dtype=q.dtype, device=q.device)
    rope_kernel[(B * H, S)](q, cos, sin, out, *q.stride(), *out.stride(), H, S, HALF=D // 2)
    return out
