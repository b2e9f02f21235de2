"""The K-th value is found by bisecting its bits; what reaches it is packed together, then sorted.

Each of the 32 (or 16) steps counts the row's elements that are at least a trial value.
"""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.top_k.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "SORT_WARPS": [1, 2, 4],
    "BITS": [16, 32],
    "ROUNDS": [1, 2, 4],
    "UNROLL": [1, 2, 4],
    "num_warps": [2, 4, 8, 16, 32],
}


@triton.jit
def selecting_kernel(
    x_ptr, keys_ptr, N, K,
    BITS: tl.constexpr, ROUNDS: tl.constexpr, UNROLL: tl.constexpr, BLOCK: tl.constexpr,
    KEPT: tl.constexpr,
):  # fmt: skip
    LOWEST: tl.constexpr = -(1 << (BITS - 1))
    for turn in range(ROUNDS):
        row = tl.program_id(0) * ROUNDS + turn
        cols = tl.arange(0, BLOCK)
        x = tl.load(x_ptr + row * N + cols, mask=cols < N, other=float("-inf"))
        if BITS == 16:  # 16-bit floats as they are
            bits = x.to(tl.int16, bitcast=True).to(tl.int32)
            bits ^= (bits >> 15) & 0x7FFF
        else:
            bits = x.to(tl.float32).to(tl.int32, bitcast=True)
            bits ^= (bits >> 31) & 0x7FFFFFFF
        threshold = tl.full((), LOWEST, tl.int32)
        for step in tl.range(0, BITS, loop_unroll_factor=UNROLL):
            trial = threshold + (tl.full((), 1, tl.int32) << (BITS - 1 - step))
            enough = tl.sum((bits >= trial).to(tl.int32), axis=0) >= K
            threshold = tl.where(enough, trial, threshold)
        chosen = (bits >= threshold) & (cols < N)
        place = tl.cumsum(chosen.to(tl.int32), axis=0) - 1
        key = (bits.to(tl.int64) << 32) | cols
        tl.store(keys_ptr + row * KEPT + place, key, mask=chosen & (place < K))


@triton.jit
def ordering_kernel(x_ptr, keys_ptr, values_ptr, places_ptr, N, K, KEPT: tl.constexpr):
    row, rank = tl.program_id(0), tl.arange(0, KEPT)
    least = tl.full((KEPT,), -9223372036854775808, tl.int64)
    keys = tl.load(keys_ptr + row * KEPT + rank, mask=rank < K, other=0)
    keys = tl.sort(tl.where(rank < K, keys, least), descending=True)
    place = (keys & 0xFFFFFFFF).to(tl.int32)
    value = tl.load(x_ptr + row * N + place, mask=rank < K, other=0.0)
    tl.store(values_ptr + row * K + rank, value, mask=rank < K)
    tl.store(places_ptr + row * K + rank, place, mask=rank < K)


def valid(params, shape):
    """One to 32 elements a thread of rows over 256; the bits of the dtype; whole rounds."""
    block = triton.next_power_of_2(shape["N"])
    bits = 32 if shape["dtype"] in ("float32", torch.float32) else params["BITS"]
    fits = params["BITS"] == bits and shape["M"] % params["ROUNDS"] == 0
    return fits and block >= 512 and 1 <= block / (32 * params["num_warps"]) <= 32


def kernel(x, k, *, SORT_WARPS=1, BITS=32, ROUNDS=1, UNROLL=1, num_warps=32):
    M, N = x.shape
    kept, block = triton.next_power_of_2(k), triton.next_power_of_2(N)
    keys = torch.empty((M, kept), dtype=torch.int64, device=x.device)
    values = torch.empty((M, k), dtype=x.dtype, device=x.device)
    places = torch.empty((M, k), dtype=torch.int32, device=x.device)
    selecting_kernel[(M // ROUNDS,)](
        x, keys, N, k, BITS, ROUNDS, UNROLL, block, kept, num_warps=num_warps
    )
    ordering_kernel[(M,)](x, keys, values, places, N, k, kept, num_warps=SORT_WARPS)
    return values, places
