"""Programs walk over rows, a row's chunks one after the other, with loads issued ahead."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.gather_rows.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "WALK": [1, 2, 4, 8],
    "BLOCK": [64, 128, 256, 512, 1024, 2048],
    "STAGES": [1, 2, 3],
    "num_warps": [1, 2, 4, 8],
}


@triton.jit
def gather_walk_kernel(
    x_ptr, index_ptr, weight_ptr, out_ptr, T, D,
    WALK: tl.constexpr, BLOCK: tl.constexpr, STAGES: tl.constexpr,
):  # fmt: skip
    first = tl.program_id(0) * WALK
    for row in range(first, min(first + WALK, T)):
        source = x_ptr + tl.load(index_ptr + row) * D
        target = out_ptr + row * D
        weight = tl.load(weight_ptr + row)
        for start in tl.range(0, D, BLOCK, num_stages=STAGES):
            cols = start + tl.arange(0, BLOCK)
            x = tl.load(source + cols, mask=cols < D, other=0.0).to(tl.float32)
            tl.store(target + cols, (x * weight).to(out_ptr.dtype.element_ty), mask=cols < D)


def valid(params, shape):
    """One to 64 elements a thread, and no block far longer than a row."""
    held = params["BLOCK"] / (32 * params["num_warps"])
    return 1 <= held <= 64 and params["BLOCK"] < 4 * shape["D"]


def kernel(x, index, weight, *, WALK=1, BLOCK=256, STAGES=1, num_warps=4):
    T, D = index.shape[0], x.shape[1]
    out = torch.empty((T, D), dtype=x.dtype, device=x.device)
    gather_walk_kernel[(triton.cdiv(T, WALK),)](
        x, index, weight, out, T, D, WALK, BLOCK, STAGES, num_warps=num_warps
    )
    return out
