"""Chunks of time scanned in registers as pairs of gain and value; the state goes on to the next."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.first_order_scan.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "CHUNK": [16, 32, 64, 128, 256],
    "BLOCK": [8, 16, 32, 64, 128],
    "LAST": ["reduce", "scan"],
    "num_warps": [1, 2, 4, 8],
    "STAGES": [1, 2],
}


@triton.jit
def compose(gain, value, next_gain, next_value):
    return gain * next_gain, value * next_gain + next_value


@triton.jit
def chunk_kernel(
    a_ptr, x_ptr, y_ptr, T, C,
    CHUNK: tl.constexpr, BLOCK: tl.constexpr, LAST: tl.constexpr, STAGES: tl.constexpr,
):  # fmt: skip
    c = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)[None, :]
    entry = tl.program_id(1) * T * C
    step = tl.arange(0, CHUNK)[:, None]
    state = tl.zeros((1, BLOCK), dtype=tl.float32)
    for start in tl.range(0, T, CHUNK, num_stages=STAGES):
        at = entry + (start + step) * C + c
        inside = (start + step < T) & (c < C)
        a = tl.load(a_ptr + at, mask=inside, other=1.0).to(tl.float32)
        x = tl.load(x_ptr + at, mask=inside, other=0.0).to(tl.float32)
        if LAST == "scan":  # the state enters as part of the first value
            x = tl.where(step == 0, x + a * state, x)
            gains, y = tl.associative_scan((a, x), 0, compose)
        else:
            gains, values = tl.associative_scan((a, x), 0, compose)
            y = values + gains * state
        tl.store(y_ptr + at, y.to(y_ptr.dtype.element_ty), mask=inside)
        state = tl.sum(tl.where(step == CHUNK - 1, y, 0.0), axis=0)[None, :]


def valid(params, shape):
    """One to 32 elements a thread; tiles not far larger than what there is."""
    t, c = params["CHUNK"], params["BLOCK"]
    fits = t < 2 * shape["T"] and c < 2 * shape["C"]
    return fits and 1 <= t * c / (32 * params["num_warps"]) <= 32


def kernel(a, x, *, CHUNK=64, BLOCK=16, LAST="reduce", STAGES=1, num_warps=2):
    B, T, C = x.shape
    y = torch.empty_like(x)
    grid = (triton.cdiv(C, BLOCK), B)
    chunk_kernel[grid](a, x, y, T, C, CHUNK, BLOCK, LAST, STAGES, num_warps=num_warps)
    return y
