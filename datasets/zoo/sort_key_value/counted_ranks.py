"""Each key counts the smaller ones of its row and goes there with its value; quadratic work."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.sort_key_value.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "BLOCK": [32, 64, 128, 256],
    "OTHERS": [8, 16, 32, 64],
    "num_warps": [1, 2, 4],
}


@triton.jit
def counting_kernel(
    keys_ptr, values_ptr, out_keys_ptr, out_values_ptr, N,
    BLOCK: tl.constexpr, OTHERS: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0) * N
    cols = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    key = tl.load(keys_ptr + row + cols, mask=cols < N, other=0.0)
    value = tl.load(values_ptr + row + cols, mask=cols < N, other=0.0)
    smaller = tl.zeros((BLOCK, OTHERS), dtype=tl.int32)
    for start in range(0, N, OTHERS):
        other = start + tl.arange(0, OTHERS)
        y = tl.load(keys_ptr + row + other, mask=other < N, other=float("inf"))
        smaller += (y[None, :] < key[:, None]).to(tl.int32)
    place = tl.sum(smaller, axis=1)
    tl.store(out_keys_ptr + row + place, key, mask=cols < N)
    tl.store(out_values_ptr + row + place, value, mask=cols < N)


def valid(params, shape):
    """Four to 64 comparisons at a time and thread, under 1e10 in all; blocks that rows fill."""
    block, others = params["BLOCK"], params["OTHERS"]
    fits = block < 2 * max(shape["N"], 32) and shape["M"] * shape["N"] ** 2 < 1e10
    return fits and 4 <= block * others / (32 * params["num_warps"]) <= 64


def kernel(keys, values, *, BLOCK=32, OTHERS=32, num_warps=1):
    M, N = keys.shape
    out_keys, out_values = torch.empty_like(keys), torch.empty_like(values)
    counting_kernel[(M, triton.cdiv(N, BLOCK))](
        keys, values, out_keys, out_values, N, BLOCK, OTHERS, num_warps=num_warps
    )
    return out_keys, out_values
