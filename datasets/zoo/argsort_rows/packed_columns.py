"""A key above its column in 32 bits; tl.sort orders these, the column is cut off again."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.argsort_rows.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "ROWS": [1, 2, 4, 8, 16],
    "FALLING": [False, True],
    "num_warps": [1, 2, 4, 8, 16],
}


@triton.jit
def packed_kernel(
    keys_ptr, out_ptr, M, N, ROWS: tl.constexpr, BLOCK: tl.constexpr, FALLING: tl.constexpr
):
    rows = tl.program_id(0) * ROWS + tl.arange(0, ROWS)[:, None]
    cols = tl.arange(0, BLOCK)[None, :]
    inside = (rows < M) & (cols < N)
    # What is beyond a row sorts after all that is in it: keys are below 2**15.
    keys = tl.load(keys_ptr + rows * N + cols, mask=inside, other=-1 if FALLING else 0x7FFF)
    packed = keys * 0x10000 + cols
    place = cols
    if FALLING:
        packed = tl.sort(packed, dim=1, descending=True)
        place = N - 1 - cols
    else:
        packed = tl.sort(packed, dim=1)
    tl.store(out_ptr + rows * N + place, packed & 0xFFFF, mask=inside)


def valid(params, shape):
    """Half an element to 16 a thread."""
    each = params["ROWS"] * triton.next_power_of_2(shape["N"]) / (32 * params["num_warps"])
    return 0.5 <= each <= 16


def kernel(keys, below, *, ROWS=1, FALLING=False, num_warps=8):
    M, N = keys.shape
    out = torch.empty_like(keys)
    block = triton.next_power_of_2(N)
    packed_kernel[(triton.cdiv(M, ROWS),)](
        keys, out, M, N, ROWS, block, FALLING, num_warps=num_warps
    )
    return out
