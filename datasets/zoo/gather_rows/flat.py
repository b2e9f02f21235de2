"""Over the output as one vector; each element finds its row by division."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.gather_rows.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "BLOCK": [128, 256, 512, 1024, 2048, 4096],
    "BLOCKS": [1, 2, 4, 8],
    "KEEP": ["", "evict_last"],
    "num_warps": [1, 2, 4, 8, 16],
}


@triton.jit
def gather_flat_kernel(
    x_ptr, index_ptr, weight_ptr, out_ptr, n, D,
    BLOCK: tl.constexpr, BLOCKS: tl.constexpr, KEEP: tl.constexpr,
):  # fmt: skip
    for block in tl.static_range(BLOCKS):
        i = (tl.program_id(0) * BLOCKS + block) * BLOCK + tl.arange(0, BLOCK)
        row, col = i // D, i % D
        index = tl.load(index_ptr + row, mask=i < n, other=0)
        weight = tl.load(weight_ptr + row, mask=i < n, other=0.0)
        x = tl.load(x_ptr + index * D + col, mask=i < n, other=0.0, eviction_policy=KEEP)
        y = x.to(tl.float32) * weight
        tl.store(out_ptr + i, y.to(out_ptr.dtype.element_ty), mask=i < n)


def valid(params, shape):
    """One to 16 elements a thread: the places hold registers."""
    return 1 <= params["BLOCK"] / (32 * params["num_warps"]) <= 16


def kernel(x, index, weight, *, BLOCK=1024, BLOCKS=1, KEEP="", num_warps=4):
    T, D = index.shape[0], x.shape[1]
    out = torch.empty((T, D), dtype=x.dtype, device=x.device)
    gather_flat_kernel[(triton.cdiv(T * D, BLOCK * BLOCKS),)](
        x, index, weight, out, T * D, D, BLOCK, BLOCKS, KEEP, num_warps=num_warps
    )
    return out
