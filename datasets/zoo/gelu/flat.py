"""The tensor as one long vector, one block a program; cache hints for data that is used once."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.gelu.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "BLOCK": [128, 256, 512, 1024, 2048, 4096, 8192],
    "EVICTION": ["", "evict_first"],
    "STORE": ["", ".cs"],
    "num_warps": [1, 2, 4, 8, 16],
}


@triton.jit
def gelu_flat_kernel(
    x_ptr, out_ptr, n, BLOCK: tl.constexpr, EVICTION: tl.constexpr, STORE: tl.constexpr
):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = offsets < n
    x = tl.load(x_ptr + offsets, mask=inside, eviction_policy=EVICTION).to(tl.float32)
    y = 0.5 * x * (1.0 + tl.math.erf(x * 0.7071067811865476))
    tl.store(out_ptr + offsets, y.to(out_ptr.dtype.element_ty), mask=inside, cache_modifier=STORE)


def valid(params, shape):
    """One to 64 elements a thread."""
    return 1 <= params["BLOCK"] / (32 * params["num_warps"]) <= 64


def kernel(x, *, BLOCK=1024, EVICTION="", STORE="", num_warps=4):
    out = torch.empty_like(x)
    n = x.numel()
    gelu_flat_kernel[(triton.cdiv(n, BLOCK),)](
        x, out, n, BLOCK, EVICTION, STORE, num_warps=num_warps
    )
    return out
