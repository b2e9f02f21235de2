"""Whole rows sorted in registers, value and place packed into one 64-bit key; the head is kept."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.top_k.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "ROWS": [1, 2, 4, 8, 16],
    "METHOD": ["sort", "topk"],
    "WIDE_KEYS": [True, False],
    "num_warps": [1, 2, 4, 8, 16],
}


@triton.jit
def sorting_kernel(
    x_ptr, values_ptr, places_ptr, M, N, K,
    ROWS: tl.constexpr, BLOCK: tl.constexpr, KEPT: tl.constexpr, METHOD: tl.constexpr,
    WIDE_KEYS: tl.constexpr,
):  # fmt: skip
    rows = tl.program_id(0) * ROWS + tl.arange(0, ROWS)[:, None]
    cols = tl.arange(0, BLOCK)[None, :]
    x = tl.load(x_ptr + rows * N + cols, mask=(rows < M) & (cols < N), other=float("-inf"))
    if WIDE_KEYS:
        bits = x.to(tl.float32).to(tl.int32, bitcast=True)
        bits ^= (bits >> 31) & 0x7FFFFFFF  # now ordered as the floats are
        keys = (bits.to(tl.int64) << 32) | cols
    else:  # 16-bit floats leave room for the place in 32 bits
        bits = x.to(tl.int16, bitcast=True)
        bits ^= (bits >> 15) & 0x7FFF
        keys = (bits.to(tl.int32) << 16) | cols
    if METHOD == "sort":
        keys = tl.sort(keys, dim=1, descending=True)
        rank = tl.arange(0, BLOCK)[None, :]
    else:
        keys = tl.topk(keys, KEPT, dim=1)
        rank = tl.arange(0, KEPT)[None, :]
    if WIDE_KEYS:
        high = (keys >> 32).to(tl.int32)
        value = (high ^ ((high >> 31) & 0x7FFFFFFF)).to(tl.float32, bitcast=True)
        place = (keys & 0xFFFFFFFF).to(tl.int32)
    else:
        high = (keys >> 16).to(tl.int16)
        value = (high ^ ((high >> 15) & 0x7FFF)).to(x_ptr.dtype.element_ty, bitcast=True)
        place = keys & 0xFFFF
    keep = (rows < M) & (rank < K)
    tl.store(values_ptr + rows * K + rank, value.to(values_ptr.dtype.element_ty), mask=keep)
    tl.store(places_ptr + rows * K + rank, place, mask=keep)


def valid(params, shape):
    """At most 4 elements a thread of rows up to 1024; narrow keys for 16-bit floats alone."""
    block = triton.next_power_of_2(shape["N"])
    single = shape["dtype"] in ("float32", torch.float32)
    each = params["ROWS"] * block / (32 * params["num_warps"])
    fits = block <= 1024 and params["ROWS"] <= shape["M"]
    return fits and (params["WIDE_KEYS"] or not single) and 0.25 <= each <= 4


def kernel(x, k, *, ROWS=1, METHOD="topk", WIDE_KEYS=True, num_warps=8):
    M, N = x.shape
    values = torch.empty((M, k), dtype=x.dtype, device=x.device)
    places = torch.empty((M, k), dtype=torch.int32, device=x.device)
    block, kept = triton.next_power_of_2(N), triton.next_power_of_2(k)
    sorting_kernel[(triton.cdiv(M, ROWS),)](
        x, values, places, M, N, k, ROWS, block, kept, METHOD, WIDE_KEYS, num_warps=num_warps
    )
    return values, places
