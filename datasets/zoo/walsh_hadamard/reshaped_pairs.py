"""Rows in registers: at each step the tile is split into pairs, then joined again."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.walsh_hadamard.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "ELEMENTS": [512, 1024, 2048, 4096, 8192, 16384],
    "num_warps": [1, 2, 4, 8, 16],
}


@triton.jit
def hadamard_kernel(
    x_ptr, out_ptr, M, scale, ROWS: tl.constexpr, N: tl.constexpr, STEPS: tl.constexpr
):
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)[:, None]
    at = row * N + tl.arange(0, N)[None, :]
    x = tl.load(x_ptr + at, mask=row < M, other=0.0).to(tl.float32)
    for step in tl.static_range(STEPS):
        pairs = tl.reshape(x, (ROWS, N // 2 ** (step + 1), 2, 2**step))
        low, high = tl.split(tl.permute(pairs, (0, 1, 3, 2)))
        joined = tl.permute(tl.join(low + high, low - high), (0, 1, 3, 2))
        x = tl.reshape(joined, (ROWS, N))
    tl.store(out_ptr + at, (x * scale).to(out_ptr.dtype.element_ty), mask=row < M)


def valid(params, shape):
    """Whole rows; four to 64 elements a thread."""
    held = params["ELEMENTS"] / (32 * params["num_warps"])
    return params["ELEMENTS"] >= shape["N"] and 4 <= held <= 64


def kernel(x, *, ELEMENTS=8192, num_warps=8):
    M, N = x.shape
    ROWS = ELEMENTS // N
    out = torch.empty_like(x)
    steps = N.bit_length() - 1
    grid = (triton.cdiv(M, ROWS),)
    hadamard_kernel[grid](x, out, M, N**-0.5, ROWS, N, steps, num_warps=num_warps)
    return out
