"""Layer normalisation of a strip of rows a program, walked in tiles through block pointers."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.layer_norm.problem import EPS, SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "ROWS": [1, 2, 4, 8, 16, 32, 64],
    "COLS": [32, 64, 128, 256, 512],
    "num_warps": [1, 2, 4, 8],
    "num_stages": [1, 2, 3, 4],
}


@triton.jit
def strips_kernel(
    x_ptr, weight_ptr, bias_ptr, out_ptr, M, N, eps, ROWS: tl.constexpr, COLS: tl.constexpr
):
    top = tl.program_id(0) * ROWS
    tiles = tl.make_block_ptr(x_ptr, (M, N), (N, 1), (top, 0), (ROWS, COLS), (1, 0))
    weights = tl.make_block_ptr(weight_ptr, (N,), (1,), (0,), (COLS,), (0,))
    biases = tl.make_block_ptr(bias_ptr, (N,), (1,), (0,), (COLS,), (0,))
    outs = tl.make_block_ptr(out_ptr, (M, N), (N, 1), (top, 0), (ROWS, COLS), (1, 0))
    sums = tl.zeros((ROWS,), dtype=tl.float32)
    squares = tl.zeros((ROWS,), dtype=tl.float32)
    reader = tiles
    for _ in range(0, N, COLS):
        x = tl.load(reader, boundary_check=(0, 1), padding_option="zero").to(tl.float32)
        sums += tl.sum(x, axis=1)
        squares += tl.sum(x * x, axis=1)
        reader = tl.advance(reader, (0, COLS))
    mean = sums / N
    rstd = tl.rsqrt(squares / N - mean * mean + eps)
    for _ in range(0, N, COLS):
        x = tl.load(tiles, boundary_check=(0, 1)).to(tl.float32)
        weight = tl.load(weights, boundary_check=(0,)).to(tl.float32)[None, :]
        bias = tl.load(biases, boundary_check=(0,)).to(tl.float32)[None, :]
        out = (x - mean[:, None]) * rstd[:, None] * weight + bias
        tl.store(outs, out.to(out_ptr.dtype.element_ty), boundary_check=(0, 1))
        tiles = tl.advance(tiles, (0, COLS))
        outs = tl.advance(outs, (0, COLS))
        weights = tl.advance(weights, (COLS,))
        biases = tl.advance(biases, (COLS,))


def valid(params, shape):
    """One to 32 values a thread; at least 64 programs."""
    held = params["ROWS"] * params["COLS"] / (32 * params["num_warps"])
    return 1 <= held <= 32 and 64 * params["ROWS"] <= max(64, shape["M"])


def kernel(x, weight, bias, *, ROWS=4, COLS=256, num_warps=4, num_stages=3):
    M, N = x.shape
    out = torch.empty_like(x)
    strips_kernel[(triton.cdiv(M, ROWS),)](
        x, weight, bias, out, M, N, EPS, ROWS, COLS, num_warps=num_warps, num_stages=num_stages
    )
    return out
