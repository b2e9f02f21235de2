"""RMS normalisation of strips of rows whose tiles the TMA unit copies, each of them twice."""

import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor

from solkit.datasets.zoo.rms_norm.problem import EPS, SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "ROWS": [1, 2, 4, 8, 16, 32],
    "COLS": [64, 128, 256, 512, 1024],
    "num_warps": [1, 2, 4, 8],
    "num_stages": [1, 2, 3, 4, 5],
}


@triton.jit
def tma_strips_kernel(
    x_tiles, weight_ptr, out_tiles, N, eps, ROWS: tl.constexpr, COLS: tl.constexpr
):
    top = tl.program_id(0) * ROWS
    squares = tl.zeros((ROWS, COLS), dtype=tl.float32)
    for left in range(0, N, COLS):
        x = x_tiles.load([top, left]).to(tl.float32)  # zeros beyond the edges
        squares += x * x
    scale = tl.rsqrt(tl.sum(squares, axis=1) / N + eps)[:, None]
    for left in range(0, N, COLS):
        cols = left + tl.arange(0, COLS)
        weight = tl.load(weight_ptr + cols, mask=cols < N, other=0.0).to(tl.float32)
        out = x_tiles.load([top, left]).to(tl.float32) * scale * weight[None, :]
        out_tiles.store([top, left], out.to(out_tiles.dtype))


def valid(params, shape):
    """Rows of a multiple of 16 bytes; tiles that registers and shared memory hold."""
    tile = params["ROWS"] * params["COLS"]
    fits = 4 * tile * (params["num_stages"] + 1) <= 227 * 1024
    aligned = shape["N"] % 8 == 0 and params["COLS"] < 2 * shape["N"]
    return aligned and fits and 1 <= tile / (32 * params["num_warps"]) <= 32


def kernel(x, weight, *, ROWS=4, COLS=256, num_warps=4, num_stages=3):
    M, N = x.shape
    out = torch.empty_like(x)
    tma_strips_kernel[(triton.cdiv(M, ROWS),)](
        TensorDescriptor.from_tensor(x, [ROWS, COLS]),
        weight,
        TensorDescriptor.from_tensor(out, [ROWS, COLS]),
        N, EPS, ROWS, COLS, num_warps=num_warps, num_stages=num_stages,
    )  # fmt: skip
    return out
