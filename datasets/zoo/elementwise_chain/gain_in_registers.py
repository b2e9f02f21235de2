"""A program keeps the gains of a band of columns and walks down rows with them."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.elementwise_chain.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "ROWS": [1, 2, 4, 8],
    "BLOCK": [64, 128, 256, 512, 1024],
    "STEPS": [4, 16, 64],
    "STAGES": [1, 3],
    "num_warps": [1, 2, 4, 8],
}


@triton.jit
def chain_band_kernel(
    x_ptr, gain_ptr, shift_ptr, out_ptr, M, N,
    ROWS: tl.constexpr, BLOCK: tl.constexpr, STEPS: tl.constexpr, STAGES: tl.constexpr,
):  # fmt: skip
    cols = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)[None, :]
    gain = tl.load(gain_ptr + cols, mask=cols < N, other=1.0).to(tl.float32)
    top = tl.program_id(0) * (ROWS * STEPS)
    for step in tl.range(0, STEPS, num_stages=STAGES):
        rows = top + step * ROWS + tl.arange(0, ROWS)[:, None]
        inside = (rows < M) & (cols < N)
        x = tl.load(x_ptr + rows * N + cols, mask=inside, other=0.0).to(tl.float32)
        shift = tl.load(shift_ptr + rows, mask=rows < M, other=0.0).to(tl.float32)
        t = tl.clamp(tl.fma(x, gain + tl.zeros_like(x), shift + tl.zeros_like(x)), -3.0, 3.0)
        t = tl.sqrt(t * t + 0.5)
        quarter = 0.25 * x
        u = tl.abs(tl.where(t > 1.0, t - quarter, t + quarter))
        u = tl.maximum(u, 0.125 * gain)
        y = tl.fdiv(u, 1.0 + u)
        tl.store(out_ptr + rows * N + cols, y.to(out_ptr.dtype.element_ty), mask=inside)


def valid(params, shape):
    """One to 32 elements a thread, no band far larger than the matrix."""
    held = params["ROWS"] * params["BLOCK"] / (32 * params["num_warps"])
    inside = params["BLOCK"] < 2 * shape["N"] and params["ROWS"] * params["STEPS"] <= shape["M"]
    return 1 <= held <= 32 and inside


def kernel(x, gain, shift, *, ROWS=2, BLOCK=128, STEPS=16, STAGES=1, num_warps=4):
    M, N = x.shape
    out = torch.empty_like(x)
    grid = (triton.cdiv(M, ROWS * STEPS), triton.cdiv(N, BLOCK))
    chain_band_kernel[grid](
        x, gain, shift, out, M, N, ROWS, BLOCK, STEPS, STAGES, num_warps=num_warps
    )
    return out
