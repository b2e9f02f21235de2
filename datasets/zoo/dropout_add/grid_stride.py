"""A fixed number of programs strides over the vector; the mask is a factor in a fused multiply."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.dropout_add.problem import KEEP, SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "BLOCK": [256, 512, 1024, 2048, 4096],
    "PROGRAMS": [132, 264, 528, 1056],
    "STAGES": [1, 2, 3],
    "num_warps": [2, 4, 8, 16],
}


@triton.jit
def dropout_stride_kernel(
    x_ptr, residual_ptr, mask_ptr, out_ptr, n, scale, BLOCK: tl.constexpr, STAGES: tl.constexpr
):
    stride = tl.num_programs(0) * BLOCK
    for start in tl.range(tl.program_id(0) * BLOCK, n, stride, num_stages=STAGES):
        i = start + tl.arange(0, BLOCK)
        factor = tl.load(mask_ptr + i, mask=i < n, other=0).to(tl.float32) * scale
        x = tl.load(x_ptr + i, mask=i < n, other=0.0).to(tl.float32)
        y = tl.fma(x, factor, tl.load(residual_ptr + i, mask=i < n, other=0.0).to(tl.float32))
        tl.store(out_ptr + i, y.to(out_ptr.dtype.element_ty), mask=i < n)


def valid(params, shape):
    """One to 64 elements a thread, a block for every second program, blocks ahead that fit."""
    held = params["BLOCK"] / (32 * params["num_warps"])
    busy = params["PROGRAMS"] * params["BLOCK"] <= 2 * shape["N"]
    return 1 <= held <= 64 and busy and params["STAGES"] * params["BLOCK"] * 9 <= 200 * 1024


def kernel(x, residual, mask, *, BLOCK=1024, PROGRAMS=528, STAGES=1, num_warps=4):
    n = x.numel()
    out = torch.empty_like(x)
    dropout_stride_kernel[(min(PROGRAMS, triton.cdiv(n, BLOCK)),)](
        x, residual, mask, out, n, 1 / KEEP, BLOCK, STAGES, num_warps=num_warps
    )
    return out
