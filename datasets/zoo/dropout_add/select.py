"""A block a program, with the dropped elements selected away."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.dropout_add.problem import KEEP, SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "BLOCK": [128, 256, 512, 1024, 2048, 4096, 8192],
    "LOAD": ["", "evict_first"],
    "STORE": ["", ".cs", ".wt"],
    "num_warps": [1, 2, 4, 8, 16],
}


@triton.jit
def dropout_select_kernel(
    x_ptr, residual_ptr, mask_ptr, out_ptr, n, scale,
    BLOCK: tl.constexpr, LOAD: tl.constexpr, STORE: tl.constexpr,
):  # fmt: skip
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = i < n
    x = tl.load(x_ptr + i, mask=inside, eviction_policy=LOAD).to(tl.float32)
    kept = tl.load(mask_ptr + i, mask=inside, eviction_policy=LOAD)
    y = tl.load(residual_ptr + i, mask=inside, eviction_policy=LOAD).to(tl.float32)
    y += tl.where(kept != 0, x * scale, 0.0)
    tl.store(out_ptr + i, y.to(out_ptr.dtype.element_ty), mask=inside, cache_modifier=STORE)


def valid(params, shape):
    """One to 64 elements a thread."""
    return 1 <= params["BLOCK"] / (32 * params["num_warps"]) <= 64


def kernel(x, residual, mask, *, BLOCK=1024, LOAD="", STORE="", num_warps=4):
    n = x.numel()
    out = torch.empty_like(x)
    dropout_select_kernel[(triton.cdiv(n, BLOCK),)](
        x, residual, mask, out, n, 1 / KEEP, BLOCK, LOAD, STORE, num_warps=num_warps
    )
    return out
