"""Two block pointers, for gate and up, that step down the rows of a band of columns."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.swiglu.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "ROWS": [1, 2, 4, 8, 16, 32],
    "BLOCK": [32, 64, 128, 256, 512],
    "STEPS": [1, 2, 8],
    "num_warps": [1, 2, 4, 8],
}


@triton.jit
def swiglu_band_kernel(
    packed_ptr, out_ptr, M, N, ROWS: tl.constexpr, BLOCK: tl.constexpr, STEPS: tl.constexpr
):
    top = tl.program_id(0) * ROWS * STEPS
    left = tl.program_id(1) * BLOCK
    strides = (2 * N, 1)
    gate = tl.make_block_ptr(packed_ptr, (M, N), strides, (top, left), (ROWS, BLOCK), (1, 0))
    up = tl.make_block_ptr(packed_ptr + N, (M, N), strides, (top, left), (ROWS, BLOCK), (1, 0))
    out = tl.make_block_ptr(out_ptr, (M, N), (N, 1), (top, left), (ROWS, BLOCK), (1, 0))
    for _ in range(STEPS):
        g = tl.load(gate, boundary_check=(0, 1), padding_option="zero").to(tl.float32)
        u = tl.load(up, boundary_check=(0, 1), padding_option="zero").to(tl.float32)
        y = g * tl.sigmoid(g) * u
        tl.store(out, y.to(out_ptr.dtype.element_ty), boundary_check=(0, 1))
        gate = tl.advance(gate, (ROWS, 0))
        up = tl.advance(up, (ROWS, 0))
        out = tl.advance(out, (ROWS, 0))


def valid(params, shape):
    """One to 64 elements a thread, no band longer than all rows."""
    held = params["ROWS"] * params["BLOCK"] / (32 * params["num_warps"])
    band = params["ROWS"] * params["STEPS"]
    return 1 <= held <= 64 and band < 2 * shape["M"]


def kernel(packed, *, ROWS=1, BLOCK=256, STEPS=1, num_warps=4):
    M, N = packed.shape[0], packed.shape[1] // 2
    out = torch.empty((M, N), dtype=packed.dtype, device=packed.device)
    grid = (triton.cdiv(M, ROWS * STEPS), triton.cdiv(N, BLOCK))
    swiglu_band_kernel[grid](packed, out, M, N, ROWS, BLOCK, STEPS, num_warps=num_warps)
    return out
