"""A key's bits above its column in 64 bits; tl.sort orders these, and values are gathered."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.sort_key_value.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "ROWS": [1, 2, 4, 8, 16],
    "FROM_BITS": [False, True],
    "num_warps": [1, 2, 4, 8, 16],
}


@triton.jit
def packed_kernel(
    keys_ptr, values_ptr, out_keys_ptr, out_values_ptr, M, N,
    ROWS: tl.constexpr, BLOCK: tl.constexpr, FROM_BITS: tl.constexpr,
):  # fmt: skip
    rows = tl.program_id(0) * ROWS + tl.arange(0, ROWS)[:, None]
    cols = tl.arange(0, BLOCK)[None, :]
    inside = (rows < M) & (cols < N)
    keys = tl.load(keys_ptr + rows * N + cols, mask=inside, other=float("inf")).to(tl.float32)
    bits = keys.to(tl.int32, bitcast=True)
    # As integers, negative floats are in reverse order.
    bits = tl.where(bits < 0, bits ^ 0x7FFFFFFF, bits)
    packed = tl.sort((bits.to(tl.int64) << 32) | cols, dim=1)
    origin = (packed & 0xFFFFFFFF).to(tl.int32)
    tl.store(
        out_values_ptr + rows * N + cols,
        tl.load(values_ptr + rows * N + origin, mask=inside, other=0.0),
        mask=inside,
    )
    if FROM_BITS:
        bits = (packed >> 32).to(tl.int32)
        bits = tl.where(bits < 0, bits ^ 0x7FFFFFFF, bits)
        keys = bits.to(tl.float32, bitcast=True)
    else:
        keys = tl.load(keys_ptr + rows * N + origin, mask=inside, other=0.0).to(tl.float32)
    tl.store(out_keys_ptr + rows * N + cols, keys.to(out_keys_ptr.dtype.element_ty), mask=inside)


def valid(params, shape):
    """An eighth to 8 elements a thread; at most 2,048 columns, since compiling takes long."""
    block = triton.next_power_of_2(shape["N"])
    each = params["ROWS"] * block / (32 * params["num_warps"])
    return block <= 2048 and 0.125 <= each <= 8


def kernel(keys, values, *, ROWS=1, FROM_BITS=True, num_warps=8):
    M, N = keys.shape
    block = triton.next_power_of_2(N)
    out_keys, out_values = torch.empty_like(keys), torch.empty_like(values)
    packed_kernel[(triton.cdiv(M, ROWS),)](
        keys, values, out_keys, out_values, M, N, ROWS, block, FROM_BITS, num_warps=num_warps
    )
    return out_keys, out_values
