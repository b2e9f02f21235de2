"""A program a row, with its shift a scalar; columns in chunks."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.elementwise_chain.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "BLOCK": [32, 64, 128, 256, 512, 1024, 2048, 4096],
    "SPLIT": [1, 2, 4],
    "STORE": ["", ".cs"],
    "num_warps": [1, 2, 4, 8],
}


@triton.jit
def chain_row_kernel(
    x_ptr, gain_ptr, shift_ptr, out_ptr, N,
    BLOCK: tl.constexpr, SPLIT: tl.constexpr, STORE: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0)
    shift = tl.load(shift_ptr + row).to(tl.float32)
    for start in range(tl.program_id(1) * BLOCK, N, BLOCK * SPLIT):
        cols = start + tl.arange(0, BLOCK)
        inside = cols < N
        x = tl.load(x_ptr + row * N + cols, mask=inside, other=0.0).to(tl.float32)
        gain = tl.load(gain_ptr + cols, mask=inside, other=0.0).to(tl.float32)
        t = x * gain + shift
        t = tl.where(t > 3.0, 3.0, tl.where(t < -3.0, -3.0, t))
        t = tl.sqrt(t * t + 0.5)
        u = tl.abs(tl.where(t > 1.0, t - 0.25 * x, t + 0.25 * x))
        u = tl.maximum(u, 0.125 * gain)
        y = (u / (1.0 + u)).to(out_ptr.dtype.element_ty)
        tl.store(out_ptr + row * N + cols, y, mask=inside, cache_modifier=STORE)


def valid(params, shape):
    """One to 64 elements a thread; parts of half a block at least."""
    held = params["BLOCK"] / (32 * params["num_warps"])
    parts = params["BLOCK"] * params["SPLIT"] <= 2 * shape["N"] or params["SPLIT"] == 1
    return 1 <= held <= 64 and parts and params["BLOCK"] <= 16 * shape["N"]


def kernel(x, gain, shift, *, BLOCK=256, SPLIT=1, STORE="", num_warps=4):
    M, N = x.shape
    out = torch.empty_like(x)
    chain_row_kernel[(M, SPLIT)](x, gain, shift, out, N, BLOCK, SPLIT, STORE, num_warps=num_warps)
    return out
