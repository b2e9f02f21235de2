"""Dropout and a residual over a flat buffer; whether blocks are whole is a heuristic."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.dropout_add import problem
from solkit.datasets.zoo.dropout_add.problem import KEEP, TOLERANCE, inputs, reference

__all__ = ["KIND", "SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference"]
KIND = "elementwise"
SHAPES = [problem.SHAPES[place] for place in (0, 2, 3)]
SPACE = {"BLOCK_SIZE": [256, 512, 1024, 2048, 4096], "num_warps": [1, 2, 4, 8]}


@triton.heuristics({"IS_WHOLE": lambda args: args["n_elements"] % args["BLOCK_SIZE"] == 0})
@triton.jit
def _dropout_residual(
    x_ptr, residual_ptr, mask_ptr, out_ptr, n_elements, scale, BLOCK_SIZE: tl.constexpr,
    IS_WHOLE: tl.constexpr,
):  # fmt: skip
    offs = tl.program_id(0) * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    if IS_WHOLE:
        x, r, keep = tl.load(x_ptr + offs), tl.load(residual_ptr + offs), tl.load(mask_ptr + offs)
    else:
        inside = offs < n_elements
        x = tl.load(x_ptr + offs, mask=inside)
        r = tl.load(residual_ptr + offs, mask=inside)
        keep = tl.load(mask_ptr + offs, mask=inside)
    out = tl.where(keep != 0, x.to(tl.float32) * scale, 0.0) + r.to(tl.float32)
    tl.store(out_ptr + offs, out.to(out_ptr.dtype.element_ty), mask=offs < n_elements)


def kernel(x, residual, mask, *, BLOCK_SIZE=1024, num_warps=4):
    out = torch.empty_like(x)

    def grid(meta):
        return (triton.cdiv(meta["n_elements"], meta["BLOCK_SIZE"]),)

    _dropout_residual[grid](
        x, residual, mask, out, x.numel(), 1 / KEEP, BLOCK_SIZE=BLOCK_SIZE, num_warps=num_warps
    )
    return out
