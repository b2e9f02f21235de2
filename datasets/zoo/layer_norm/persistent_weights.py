"""Layer normalisation by programs that stay and keep weight and bias in registers."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.layer_norm.problem import EPS, SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "PROGRAMS": [132, 264, 528, 1056],
    "ROWS": [1, 2, 4],
    "KEEP_FP32": [True, False],
    "num_warps": [2, 4, 8, 16, 32],
    "num_stages": [1, 2, 3, 4],
}


@triton.jit
def persistent_kernel(
    x_ptr, weight_ptr, bias_ptr, out_ptr, M, N, eps, ROWS: tl.constexpr, BLOCK: tl.constexpr,
    KEEP_FP32: tl.constexpr,
):  # fmt: skip
    cols = tl.arange(0, BLOCK)[None, :]
    weight = tl.load(weight_ptr + cols, mask=cols < N, other=0.0)
    bias = tl.load(bias_ptr + cols, mask=cols < N, other=0.0)
    if KEEP_FP32:
        weight = weight.to(tl.float32)
        bias = bias.to(tl.float32)
    first = tl.program_id(0).to(tl.int64) * ROWS
    for top in tl.range(first, M, tl.num_programs(0) * ROWS):
        rows = (top + tl.arange(0, ROWS))[:, None]
        inside = (rows < M) & (cols < N)
        x = tl.load(x_ptr + rows * N + cols, mask=inside, other=0.0).to(tl.float32)
        mean = tl.sum(x, axis=1, keep_dims=True) / N
        centred = tl.where(cols < N, x - mean, 0.0)
        scale = tl.rsqrt(tl.sum(centred * centred, axis=1, keep_dims=True) / N + eps)
        out = centred * scale * weight + bias
        tl.store(out_ptr + rows * N + cols, out.to(out_ptr.dtype.element_ty), mask=inside)


def valid(params, shape):
    """One to 32 values of each kind a thread; every program has work; stages fit."""
    tile = params["ROWS"] * triton.next_power_of_2(shape["N"])
    busy = params["PROGRAMS"] * params["ROWS"] <= shape["M"]
    fits = 4 * tile * params["num_stages"] <= 227 * 1024
    return busy and fits and 1 <= tile / (32 * params["num_warps"]) <= 32 and tile <= 16384


def kernel(x, weight, bias, *, PROGRAMS=264, ROWS=1, KEEP_FP32=True, num_warps=16, num_stages=2):
    M, N = x.shape
    out = torch.empty_like(x)
    block = triton.next_power_of_2(N)
    grid = (min(PROGRAMS, triton.cdiv(M, ROWS)),)
    persistent_kernel[grid](
        x, weight, bias, out, M, N, EPS, ROWS, block, KEEP_FP32,
        num_warps=num_warps, num_stages=num_stages,
    )  # fmt: skip
    return out
