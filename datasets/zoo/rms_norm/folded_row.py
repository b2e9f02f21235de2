"""RMS normalisation of a row folded into lanes by pieces, summed along the pieces first."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.rms_norm.problem import EPS, SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "PIECES": [2, 4, 8, 16, 32],
    "ACROSS": [False, True],
    "WEIGHT_CACHE": ["", ".cg"],
    "STORE_CACHE": ["", ".cs"],
    "num_warps": [1, 2, 4, 8, 16, 32],
}


@triton.jit
def folded_row_kernel(
    x_ptr, w_ptr, y_ptr, N, eps, LANES: tl.constexpr, PIECES: tl.constexpr,
    ACROSS: tl.constexpr, WEIGHT_CACHE: tl.constexpr, STORE_CACHE: tl.constexpr,
):  # fmt: skip
    lane, piece = tl.arange(0, LANES), tl.arange(0, PIECES)
    # A lane's pieces are neighbours, or one of every LANES columns.
    if ACROSS:
        cols = piece[None, :] * LANES + lane[:, None]
    else:
        cols = lane[:, None] * PIECES + piece[None, :]
    inside = cols < N
    base = tl.program_id(0).to(tl.int64) * N
    x = tl.load(x_ptr + base + cols, mask=inside, other=0.0).to(tl.float32)
    w = tl.load(w_ptr + cols, mask=inside, other=0.0, cache_modifier=WEIGHT_CACHE).to(tl.float32)
    mean_square = tl.sum(tl.sum(x * x, axis=1), axis=0) / N
    y = x * w * tl.rsqrt(mean_square + eps)
    tl.store(
        y_ptr + base + cols, y.to(y_ptr.dtype.element_ty), mask=inside, cache_modifier=STORE_CACHE
    )


def valid(params, shape):
    """One to 64 values a thread, at least a lane for every thread but of short rows."""
    block = triton.next_power_of_2(shape["N"])
    held = block / (32 * params["num_warps"])
    return block <= 16384 and 1 <= held <= 64 and params["PIECES"] <= max(2 * held, 4)


def kernel(x, weight, *, PIECES=4, ACROSS=False, WEIGHT_CACHE="", STORE_CACHE="", num_warps=8):
    M, N = x.shape
    y = torch.empty_like(x)
    lanes = triton.next_power_of_2(N) // PIECES
    folded_row_kernel[(M,)](
        x, weight, y, N, EPS, lanes, PIECES, ACROSS, WEIGHT_CACHE, STORE_CACHE,
        num_warps=num_warps,
    )  # fmt: skip
    return y
