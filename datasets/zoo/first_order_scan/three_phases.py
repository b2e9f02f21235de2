"""Pieces of time in parallel: gain and end of each, a recurrence over those, then the values."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.first_order_scan.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "LENGTH": [16, 32, 64, 128, 256],
    "BLOCK": [32, 64, 128, 256],
    "UNROLL": [1, 2, 4],
    "ENDS_UNROLL": [1, 4],
    "num_warps": [1, 2, 4],
}


@triton.jit
def end_kernel(
    a_ptr, x_ptr, gains_ptr, ends_ptr, T, C, LENGTH,
    BLOCK: tl.constexpr, UNROLL: tl.constexpr,
):  # fmt: skip
    c = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    piece, b = tl.program_id(1), tl.program_id(2)
    gain = tl.full((BLOCK,), 1.0, tl.float32)
    end = tl.zeros((BLOCK,), tl.float32)
    for t in tl.range(piece * LENGTH, min(piece * LENGTH + LENGTH, T), loop_unroll_factor=UNROLL):
        at = (b * T + t) * C + c
        a = tl.load(a_ptr + at, mask=c < C, other=0.0).to(tl.float32)
        end = end * a + tl.load(x_ptr + at, mask=c < C, other=0.0).to(tl.float32)
        gain *= a
    place = (b * tl.num_programs(1) + piece) * C + c
    tl.store(gains_ptr + place, gain, mask=c < C)
    tl.store(ends_ptr + place, end, mask=c < C)


@triton.jit
def carry_kernel(gains_ptr, ends_ptr, pieces, C, BLOCK: tl.constexpr, UNROLL: tl.constexpr):
    """Replace the end of each piece by the state in which it begins."""
    c = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    state = tl.zeros((BLOCK,), tl.float32)
    for piece in tl.range(0, pieces, loop_unroll_factor=UNROLL):
        place = (tl.program_id(1) * pieces + piece) * C + c
        end = tl.load(ends_ptr + place, mask=c < C, other=0.0)
        gain = tl.load(gains_ptr + place, mask=c < C, other=0.0)
        tl.store(ends_ptr + place, state, mask=c < C)
        state = state * gain + end


@triton.jit
def replay_kernel(
    a_ptr, x_ptr, ends_ptr, y_ptr, T, C, LENGTH, BLOCK: tl.constexpr, UNROLL: tl.constexpr
):
    c = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    piece, b = tl.program_id(1), tl.program_id(2)
    y = tl.load(ends_ptr + (b * tl.num_programs(1) + piece) * C + c, mask=c < C, other=0.0)
    for t in tl.range(piece * LENGTH, min(piece * LENGTH + LENGTH, T), loop_unroll_factor=UNROLL):
        at = (b * T + t) * C + c
        a = tl.load(a_ptr + at, mask=c < C, other=0.0).to(tl.float32)
        y = y * a + tl.load(x_ptr + at, mask=c < C, other=0.0).to(tl.float32)
        tl.store(y_ptr + at, y.to(y_ptr.dtype.element_ty), mask=c < C)


def valid(params, shape):
    """One to 4 channels a thread; at least two pieces; blocks not far wider than the channels."""
    fits = 2 * params["LENGTH"] <= shape["T"] and params["BLOCK"] < 2 * shape["C"]
    return fits and 1 <= params["BLOCK"] / (32 * params["num_warps"]) <= 4


def kernel(a, x, *, LENGTH=32, BLOCK=64, UNROLL=2, ENDS_UNROLL=1, num_warps=1):
    B, T, C = x.shape
    pieces = triton.cdiv(T, LENGTH)
    gains = torch.empty((B, pieces, C), dtype=torch.float32, device=x.device)
    ends, y = torch.empty_like(gains), torch.empty_like(x)
    grid = (triton.cdiv(C, BLOCK), pieces, B)
    end_kernel[grid](a, x, gains, ends, T, C, LENGTH, BLOCK, UNROLL, num_warps=num_warps)
    carry_kernel[(triton.cdiv(C, 32), B)](gains, ends, pieces, C, 32, ENDS_UNROLL, num_warps=1)
    replay_kernel[grid](a, x, ends, y, T, C, LENGTH, BLOCK, UNROLL, num_warps=num_warps)
    return y
