"""Time split among programs, in three launches.

First the state that each part leaves behind by itself, then the states that the parts start from,
then the parts once more from there.
"""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.ssm_scan.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]
SPACE = {
    "BLOCK_C": [8, 16, 32, 64],
    "PARTS": [4, 8, 16, 32],
    "UNROLL": [1, 2],
    "num_warps": [1, 2, 4],
    "num_stages": [1, 3],
}


@triton.jit
def part_kernel(
    u_ptr, delta_ptr, a_ptr, b_ptr, c_ptr, y_ptr, left_ptr, spent_ptr, L, C, LENGTH,
    N: tl.constexpr, BLOCK_C: tl.constexpr, FIRST: tl.constexpr, UNROLL: tl.constexpr,
    STAGES: tl.constexpr,
):  # fmt: skip
    """`FIRST`: the state left from nothing and the time spent; else y from the state given."""
    channel = tl.program_id(0) * BLOCK_C + tl.arange(0, BLOCK_C)
    part, batch, parts = tl.program_id(1), tl.program_id(2), tl.num_programs(1)
    n = tl.arange(0, N)
    mask = channel < C
    a = tl.load(a_ptr + channel[:, None] * N + n[None, :], mask=mask[:, None], other=0.0)
    place = (batch * parts + part) * C + channel
    states = left_ptr + place[:, None] * N + n[None, :]
    h = tl.zeros((BLOCK_C, N), dtype=tl.float32)
    if not FIRST:
        h = tl.load(states, mask=mask[:, None], other=0.0)
    spent = tl.zeros((BLOCK_C,), dtype=tl.float32)
    last = min((part + 1) * LENGTH, L)
    for t in tl.range(part * LENGTH, last, loop_unroll_factor=UNROLL, num_stages=STAGES):
        at = batch * L + t
        u = tl.load(u_ptr + at * C + channel, mask=mask, other=0.0).to(tl.float32)
        delta = tl.load(delta_ptr + at * C + channel, mask=mask, other=0.0).to(tl.float32)
        b = tl.load(b_ptr + at * N + n).to(tl.float32)
        h = tl.exp(delta[:, None] * a) * h + (delta * u)[:, None] * b[None, :]
        if FIRST:
            spent += delta
        else:
            c = tl.load(c_ptr + at * N + n).to(tl.float32)
            y = tl.sum(h * c[None, :], axis=1).to(y_ptr.dtype.element_ty)
            tl.store(y_ptr + at * C + channel, y, mask=mask)
    if FIRST:
        tl.store(states, h, mask=mask[:, None])
        tl.store(spent_ptr + place, spent, mask=mask)


@triton.jit
def carry_kernel(
    a_ptr, left_ptr, spent_ptr, C, PARTS, N: tl.constexpr, BLOCK_C: tl.constexpr
):  # fmt: skip
    """Put what a part starts from in the place of what it left."""
    channel = tl.program_id(0) * BLOCK_C + tl.arange(0, BLOCK_C)[:, None]
    n = tl.arange(0, N)[None, :]
    a = tl.load(a_ptr + channel * N + n, mask=channel < C, other=0.0)
    h = tl.zeros((BLOCK_C, N), dtype=tl.float32)
    for part in range(PARTS):
        place = (tl.program_id(1) * PARTS + part) * C + channel
        left = tl.load(left_ptr + place * N + n, mask=channel < C, other=0.0)
        spent = tl.load(spent_ptr + place, mask=channel < C, other=0.0)
        tl.store(left_ptr + place * N + n, h, mask=channel < C)
        h = tl.exp(spent * a) * h + left


def valid(params, shape):
    """One to 16 states a thread, parts of eight steps at the least."""
    fits = 1 <= params["BLOCK_C"] * shape["N"] / (32 * params["num_warps"]) <= 16
    return fits and params["PARTS"] * 8 <= shape["L"]


def kernel(u, delta, a, b, c, *, BLOCK_C=32, PARTS=8, UNROLL=1, num_warps=2, num_stages=1):
    B, L, C = u.shape
    N = a.shape[1]
    y = torch.empty_like(u)
    left = torch.empty((B, PARTS, C, N), dtype=torch.float32, device=u.device)
    spent = torch.empty((B, PARTS, C), dtype=torch.float32, device=u.device)
    blocks, length = triton.cdiv(C, BLOCK_C), triton.cdiv(L, PARTS)
    for first in (True, False):
        part_kernel[(blocks, PARTS, B)](
            u, delta, a, b, c, y, left, spent, L, C, length, N, BLOCK_C, first, UNROLL, num_stages,
            num_warps=num_warps,
        )  # fmt: skip
        if first:
            carry_kernel[(blocks, B)](a, left, spent, C, PARTS, N, BLOCK_C, num_warps=num_warps)
    return y
