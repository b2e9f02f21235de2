"""As many programs as the GPU holds, each striding over the vector, with loads issued ahead."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.gelu.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "BLOCK": [256, 512, 1024, 2048, 4096],
    "PROGRAMS": [132, 264, 528, 1056, 2112],
    "STAGES": [1, 2, 4],
    "num_warps": [2, 4, 8],
}


@triton.jit
def gelu_grid_stride_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr, STAGES: tl.constexpr):
    first = tl.program_id(0) * BLOCK
    stride = tl.num_programs(0) * BLOCK
    for start in tl.range(first, n, stride, num_stages=STAGES):
        i = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + i, mask=i < n, other=0.0).to(tl.float32)
        y = 0.5 * x * (1.0 + tl.math.erf(x * 0.7071067811865476))
        tl.store(out_ptr + i, y.to(out_ptr.dtype.element_ty), mask=i < n)


def valid(params, shape):
    """One to 64 elements a thread, and a block of work for each program."""
    held = params["BLOCK"] / (32 * params["num_warps"])
    smallest = params["PROGRAMS"] == 132
    busy = params["PROGRAMS"] * params["BLOCK"] <= 2 * shape["M"] * shape["N"]
    return 1 <= held <= 64 and (busy or smallest)


def kernel(x, *, BLOCK=1024, PROGRAMS=132, STAGES=2, num_warps=4):
    out = torch.empty_like(x)
    n = x.numel()
    grid = (min(PROGRAMS, triton.cdiv(n, BLOCK)),)
    gelu_grid_stride_kernel[grid](x, out, n, BLOCK, STAGES, num_warps=num_warps)
    return out
