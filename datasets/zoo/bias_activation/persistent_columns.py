"""A fixed number of programs, each with the bias of a band of columns, strides over rows."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.bias_activation.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "ROWS": [1, 2, 4, 8],
    "BLOCK": [64, 128, 256, 512, 1024],
    "PER_SM": [1, 2, 4, 8],
    "STAGES": [1, 2, 4],
    "num_warps": [2, 4, 8],
}
SMS = 132


@triton.jit
def bias_relu2_stride_kernel(
    x_ptr, bias_ptr, out_ptr, M, N, ROWS: tl.constexpr, BLOCK: tl.constexpr, STAGES: tl.constexpr
):
    cols = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)[None, :]
    bias = tl.load(bias_ptr + cols, mask=cols < N, other=0.0).to(tl.float32)
    stride = tl.num_programs(1) * ROWS
    for top in tl.range(tl.program_id(1) * ROWS, M, stride, num_stages=STAGES):
        rows = top + tl.arange(0, ROWS)[:, None]
        inside = (rows < M) & (cols < N)
        x = tl.load(x_ptr + rows * N + cols, mask=inside, other=0.0).to(tl.float32)
        y = tl.maximum(x + bias, 0.0)
        tl.store(out_ptr + rows * N + cols, (y * y).to(out_ptr.dtype.element_ty), mask=inside)


def valid(params, shape):
    """One to 32 elements a thread, no band far wider than a row."""
    held = params["ROWS"] * params["BLOCK"] / (32 * params["num_warps"])
    return 1 <= held <= 32 and params["BLOCK"] < 2 * shape["N"]


def kernel(x, bias, *, ROWS=4, BLOCK=256, PER_SM=8, STAGES=1, num_warps=4):
    M, N = x.shape
    out = torch.empty_like(x)
    bands = triton.cdiv(N, BLOCK)
    grid = (bands, min(triton.cdiv(PER_SM * SMS, bands), triton.cdiv(M, ROWS)))
    bias_relu2_stride_kernel[grid](x, bias, out, M, N, ROWS, BLOCK, STAGES, num_warps=num_warps)
    return out
