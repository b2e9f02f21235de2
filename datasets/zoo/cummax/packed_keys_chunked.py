"""Chunks along a row with a carry: value and place in one 64-bit integer, scanned by maximum."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.cummax.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "ROWS": [1, 2, 4, 8, 16],
    "BLOCK": [32, 64, 128, 256, 512, 1024, 2048],
    "CARRY": ["maximum", "last"],
    "num_warps": [1, 2, 4, 8],
}


@triton.jit
def larger(a, b):
    return tl.maximum(a, b)


@triton.jit
def key_kernel(
    x_ptr, values_ptr, places_ptr, M, N,
    ROWS: tl.constexpr, BLOCK: tl.constexpr, CARRY: tl.constexpr,
):  # fmt: skip
    rows = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)[:, None]
    steps = tl.arange(0, BLOCK)[None, :]
    best = tl.full((ROWS,), -9223372036854775807, tl.int64)
    for start in range(0, N, BLOCK):
        cols = start + steps
        inside = (rows < M) & (cols < N)
        x = tl.load(x_ptr + rows * N + cols, mask=inside, other=float("-inf"))
        bits = x.to(tl.float32).to(tl.int32, bitcast=True)
        bits ^= (bits >> 31) & 0x7FFFFFFF  # ordered as the floats are
        keys = (bits.to(tl.int64) << 32) | cols
        scanned = tl.maximum(tl.associative_scan(keys, 1, larger), best[:, None])
        high = (scanned >> 32).to(tl.int32)
        value = (high ^ ((high >> 31) & 0x7FFFFFFF)).to(tl.float32, bitcast=True)
        tl.store(values_ptr + rows * N + cols, value.to(values_ptr.dtype.element_ty), mask=inside)
        places = (scanned & 0xFFFFFFFF).to(tl.int32)
        tl.store(places_ptr + rows * N + cols, places, mask=inside)
        if CARRY == "maximum":
            best = tl.max(scanned, axis=1)
        else:
            best = tl.sum(tl.where(steps == BLOCK - 1, scanned, 0), axis=1)


def valid(params, shape):
    """One to 16 keys a thread, no chunk far longer than a row."""
    rows, block = params["ROWS"], params["BLOCK"]
    fits = rows <= shape["M"] and block < 2 * shape["N"]
    return fits and 1 <= rows * block / (32 * params["num_warps"]) <= 16


def kernel(x, *, ROWS=2, BLOCK=128, CARRY="maximum", num_warps=2):
    M, N = x.shape
    values = torch.empty_like(x)
    places = torch.empty((M, N), dtype=torch.int32, device=x.device)
    key_kernel[(triton.cdiv(M, ROWS),)](
        x, values, places, M, N, ROWS, BLOCK, CARRY, num_warps=num_warps
    )
    return values, places
