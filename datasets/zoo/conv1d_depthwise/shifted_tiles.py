"""A tile of times and channels a program, loaded once for each tap at its shifted place."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.conv1d_depthwise.problem import SHAPES, TAPS, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "BLOCK_T": [1, 4, 8, 16, 32, 64, 128],
    "BLOCK_C": [16, 32, 64, 128, 256],
    "num_warps": [1, 2, 4, 8],
}


@triton.jit
def shifted_kernel(
    x_ptr, weight_ptr, out_ptr, T, C,
    TAPS: tl.constexpr, BLOCK_T: tl.constexpr, BLOCK_C: tl.constexpr,
):  # fmt: skip
    entry = tl.program_id(2) * T * C
    t = tl.program_id(1) * BLOCK_T + tl.arange(0, BLOCK_T)
    c = tl.program_id(0) * BLOCK_C + tl.arange(0, BLOCK_C)
    acc = tl.zeros((BLOCK_T, BLOCK_C), dtype=tl.float32)
    for tap in tl.static_range(TAPS):
        at = t - (TAPS - 1) + tap
        inside = (at[:, None] >= 0) & (at[:, None] < T) & (c[None, :] < C)
        x = tl.load(x_ptr + entry + at[:, None] * C + c[None, :], mask=inside, other=0.0)
        weight = tl.load(weight_ptr + c * TAPS + tap, mask=c < C, other=0.0)
        acc += x.to(tl.float32) * weight.to(tl.float32)[None, :]
    out = (acc * tl.sigmoid(acc)).to(out_ptr.dtype.element_ty)
    inside = (t[:, None] < T) & (c[None, :] < C)
    tl.store(out_ptr + entry + t[:, None] * C + c[None, :], out, mask=inside)


def valid(params, shape):
    """One to 64 elements a thread, no tile far larger than what there is."""
    t, c = params["BLOCK_T"], params["BLOCK_C"]
    fits = t < 2 * shape["T"] and c < 2 * shape["C"]
    return fits and 1 <= t * c / (32 * params["num_warps"]) <= 64


def kernel(x, weight, *, BLOCK_T=16, BLOCK_C=128, num_warps=4):
    B, T, C = x.shape
    out = torch.empty_like(x)
    grid = (triton.cdiv(C, BLOCK_C), triton.cdiv(T, BLOCK_T), B)
    shifted_kernel[grid](x, weight, out, T, C, TAPS, BLOCK_T, BLOCK_C, num_warps=num_warps)
    return out
