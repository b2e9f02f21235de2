"""Tiles of bytes; both halves are joined again in registers, so that stores are contiguous."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.dequantise.problem import GROUP, SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "ROWS": [1, 2, 4, 8, 16, 32],
    "BYTES": [64, 128, 256, 512, 1024],
    "STORE": ["", ".cs"],
    "num_warps": [1, 2, 4, 8],
}


@triton.jit
def dequantise_kernel(
    packed_ptr, scale_ptr, out_ptr, M, N, GROUP: tl.constexpr,
    ROWS: tl.constexpr, BYTES: tl.constexpr, STORE: tl.constexpr,
):  # fmt: skip
    rows = tl.program_id(0) * ROWS + tl.arange(0, ROWS)[:, None]
    first = tl.program_id(1) * BYTES
    at = first + tl.arange(0, BYTES)[None, :]
    inside = (rows < M) & (at < N // 2)
    packed = tl.load(packed_ptr + rows * (N // 2) + at, mask=inside, other=0)
    group = scale_ptr + rows * (N // GROUP) + at // (GROUP // 2)
    scale = tl.load(group, mask=inside, other=0.0).to(tl.float32)
    low = ((packed & 15).to(tl.float32) - 8.0) * scale
    high = ((packed >> 4).to(tl.float32) - 8.0) * scale
    y = tl.interleave(low, high).to(out_ptr.dtype.element_ty)
    cols = 2 * first + tl.arange(0, 2 * BYTES)[None, :]
    inside = (rows < M) & (cols < N)
    tl.store(out_ptr + rows * N + cols, y, mask=inside, cache_modifier=STORE)


def valid(params, shape):
    """One to 32 bytes a thread, no tile far wider than a row."""
    held = params["ROWS"] * params["BYTES"] / (32 * params["num_warps"])
    return 1 <= held <= 32 and params["BYTES"] < shape["N"]


def kernel(packed, scale, *, ROWS=4, BYTES=128, STORE="", num_warps=4):
    M, N = packed.shape[0], 2 * packed.shape[1]
    out = torch.empty((M, N), dtype=scale.dtype, device=packed.device)
    grid = (triton.cdiv(M, ROWS), triton.cdiv(N // 2, BYTES))
    dequantise_kernel[grid](
        packed, scale, out, M, N, GROUP, ROWS, BYTES, STORE, num_warps=num_warps
    )
    return out
