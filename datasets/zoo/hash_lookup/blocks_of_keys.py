"""A block of keys goes through all slots, under a mask of the keys that have not ended."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.hash_lookup.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "BLOCK": [32, 64, 128, 256, 512, 1024, 2048],
    "UNROLL": [False, True],
    "num_warps": [1, 2, 4, 8],
}


@triton.jit
def probing_kernel(
    asked_ptr, table_ptr, values_ptr, out_ptr, N, capacity,
    SHIFT: tl.constexpr, PROBES: tl.constexpr, UNROLL: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    key = tl.load(asked_ptr + at, mask=at < N, other=0)
    slot = (key.to(tl.uint32) * 2654435761 >> SHIFT).to(tl.int32)
    here = tl.load(table_ptr + slot, mask=at < N, other=-1)
    if UNROLL:
        for _ in tl.static_range(PROBES - 1):
            on = (here != key) & (here != -1)
            slot = tl.where(on, (slot + 1) & (capacity - 1), slot)
            here = tl.where(on, tl.load(table_ptr + slot, mask=on, other=-1), here)
    else:
        for _ in range(PROBES - 1):
            on = (here != key) & (here != -1)
            slot = tl.where(on, (slot + 1) & (capacity - 1), slot)
            here = tl.where(on, tl.load(table_ptr + slot, mask=on, other=-1), here)
    found = (here == key) & (at < N)
    value = tl.load(values_ptr + slot, mask=found, other=0.0)
    tl.store(out_ptr + at, value, mask=at < N)


def valid(params, shape):
    """One to 16 keys a thread."""
    return 1 <= params["BLOCK"] / (32 * params["num_warps"]) <= 16


def kernel(asked, table, values, *, BLOCK=256, UNROLL=False, num_warps=4):
    N, capacity = asked.numel(), table.numel()
    out = torch.empty(N, dtype=values.dtype, device=values.device)
    shift = 33 - capacity.bit_length()
    probing_kernel[(triton.cdiv(N, BLOCK),)](
        asked, table, values, out, N, capacity, shift, 16, UNROLL, BLOCK, num_warps=num_warps
    )
    return out
