"""Values of x are loaded only where the mask keeps them: the load depends on another load."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.dropout_add.problem import KEEP, SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "BLOCK": [128, 256, 512, 1024, 2048, 4096],
    "BLOCKS": [1, 2, 4, 8],
    "MASK_FIRST": [True, False],
    "num_warps": [1, 2, 4, 8, 16],
}


@triton.jit
def dropout_skip_kernel(
    x_ptr, residual_ptr, mask_ptr, out_ptr, n, scale,
    BLOCK: tl.constexpr, BLOCKS: tl.constexpr, MASK_FIRST: tl.constexpr,
):  # fmt: skip
    i = tl.program_id(0) * (BLOCK * BLOCKS) + tl.arange(0, BLOCK)
    for _ in tl.static_range(BLOCKS):
        if MASK_FIRST:
            kept = tl.load(mask_ptr + i, mask=i < n, other=0) != 0
            y = tl.load(residual_ptr + i, mask=i < n).to(tl.float32)
        else:
            y = tl.load(residual_ptr + i, mask=i < n).to(tl.float32)
            kept = tl.load(mask_ptr + i, mask=i < n, other=0) != 0
        y += scale * tl.load(x_ptr + i, mask=kept, other=0.0).to(tl.float32)
        tl.store(out_ptr + i, y.to(out_ptr.dtype.element_ty), mask=i < n)
        i += BLOCK


def valid(params, shape):
    """One to 32 elements a thread."""
    return 1 <= params["BLOCK"] / (32 * params["num_warps"]) <= 32


def kernel(x, residual, mask, *, BLOCK=1024, BLOCKS=1, MASK_FIRST=True, num_warps=4):
    n = x.numel()
    out = torch.empty_like(x)
    dropout_skip_kernel[(triton.cdiv(n, BLOCK * BLOCKS),)](
        x, residual, mask, out, n, 1 / KEEP, BLOCK, BLOCKS, MASK_FIRST, num_warps=num_warps
    )
    return out
