"""Whole heads are loaded as (half, pair), turned round and split in registers, then joined."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.rope.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]
SPACE = {
    "ROWS": [1, 2, 4, 8, 16, 32, 64],
    "PRECISE": [False, True],
    "EVICT": ["", "evict_first"],
    "num_warps": [1, 2, 4, 8, 16],
}


@triton.jit
def split_view_kernel(
    x_ptr, cos_ptr, sin_ptr, out_ptr, N, H,
    D: tl.constexpr, ROWS: tl.constexpr, PRECISE: tl.constexpr, EVICT: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)  # a row is a head of a token
    place = row[:, None] * D + tl.arange(0, D)[None, :]
    x = tl.load(x_ptr + place, mask=row[:, None] < N, other=0.0, eviction_policy=EVICT)
    pairs = tl.permute(tl.reshape(x, (ROWS, 2, D // 2)), (0, 2, 1))
    low, high = tl.split(pairs)
    angle = (row // H)[:, None] * (D // 2) + tl.arange(0, D // 2)[None, :]
    cos = tl.load(cos_ptr + angle, mask=row[:, None] < N, other=0.0)
    sin = tl.load(sin_ptr + angle, mask=row[:, None] < N, other=0.0)
    low, high = low.to(tl.float32), high.to(tl.float32)
    if PRECISE:  # one rounding less
        new_low, new_high = tl.fma(low, cos, -high * sin), tl.fma(high, cos, low * sin)
    else:
        new_low, new_high = low * cos - high * sin, high * cos + low * sin
    turned = tl.permute(tl.join(new_low, new_high), (0, 2, 1))
    out = tl.reshape(turned, (ROWS, D)).to(out_ptr.dtype.element_ty)
    tl.store(out_ptr + place, out, mask=row[:, None] < N)


def valid(params, shape):
    """Two to 128 elements a thread."""
    return 2 <= params["ROWS"] * shape["D"] / (32 * params["num_warps"]) <= 128


def kernel(x, cos, sin, *, ROWS=16, PRECISE=False, EVICT="", num_warps=4):
    T, H, D = x.shape
    out = torch.empty_like(x)
    split_view_kernel[(triton.cdiv(T * H, ROWS),)](
        x, cos, sin, out, T * H, H, D, ROWS, PRECISE, EVICT, num_warps=num_warps
    )
    return out
