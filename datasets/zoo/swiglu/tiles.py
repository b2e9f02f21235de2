"""Tiles of rows and columns: gate and up lie a row's length apart."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.swiglu.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "ROWS": [1, 2, 4, 8, 16],
    "BLOCK": [64, 128, 256, 512, 1024, 2048],
    "EVICTION": ["", "evict_first"],
    "num_warps": [1, 2, 4, 8],
}


@triton.jit
def swiglu_kernel(
    packed_ptr, out_ptr, M, N, ROWS: tl.constexpr, BLOCK: tl.constexpr, EVICTION: tl.constexpr
):
    rows = tl.program_id(0) * ROWS + tl.arange(0, ROWS)[:, None]
    cols = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)[None, :]
    inside = (rows < M) & (cols < N)
    source = packed_ptr + rows * 2 * N + cols
    gate = tl.load(source, mask=inside, other=0.0, eviction_policy=EVICTION).to(tl.float32)
    up = tl.load(source + N, mask=inside, other=0.0, eviction_policy=EVICTION).to(tl.float32)
    out = gate * tl.sigmoid(gate) * up
    tl.store(out_ptr + rows * N + cols, out.to(out_ptr.dtype.element_ty), mask=inside)


def valid(params, shape):
    """One to 64 elements a thread, no block far longer than a row."""
    held = params["ROWS"] * params["BLOCK"] / (32 * params["num_warps"])
    return 1 <= held <= 64 and params["BLOCK"] < 2 * shape["N"]


def kernel(packed, *, ROWS=1, BLOCK=512, EVICTION="", num_warps=4):
    M, N = packed.shape[0], packed.shape[1] // 2
    out = torch.empty((M, N), dtype=packed.dtype, device=packed.device)
    grid = (triton.cdiv(M, ROWS), triton.cdiv(N, BLOCK))
    swiglu_kernel[grid](packed, out, M, N, ROWS, BLOCK, EVICTION, num_warps=num_warps)
    return out
