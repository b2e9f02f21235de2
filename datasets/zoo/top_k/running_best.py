"""One pass over each row in chunks: while a chunk holds more than the least kept, it is swapped in.

SPLITS programs share a row; a second kernel ranks what they have kept by counting.
"""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.top_k.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "CHUNK": [64, 128, 256, 512, 1024, 2048, 4096],
    "SPLITS": [1, 2, 4, 8, 16],
    "RANK_STEP": [4, 16],
    "num_warps": [1, 2, 4, 8],
}


@triton.jit
def keeping_kernel(
    x_ptr, kept_ptr, spots_ptr, N, K, LENGTH, CHUNK: tl.constexpr, KEPT: tl.constexpr
):
    row, part = tl.program_id(0), tl.program_id(1)
    slot, cols = tl.arange(0, KEPT), tl.arange(0, CHUNK)
    kept = tl.where(slot < K, float("-inf"), float("inf"))  # slots beyond K are never the least
    spots = tl.full((KEPT,), -1, tl.int32)
    least = float("-inf")
    last = min((part + 1) * LENGTH, N)
    for start in range(part * LENGTH, last, CHUNK):
        inside = start + cols < last
        x = tl.load(x_ptr + row * N + start + cols, mask=inside, other=float("-inf"))
        x = x.to(tl.float32)
        top, place = tl.max(x, axis=0, return_indices=True)
        while top > least:
            swapped = slot == tl.argmin(kept, axis=0)
            kept = tl.where(swapped, top, kept)
            spots = tl.where(swapped, start + place, spots)
            least = tl.min(kept, axis=0)
            x = tl.where(cols == place, float("-inf"), x)
            top, place = tl.max(x, axis=0, return_indices=True)
    at = (row * tl.num_programs(1) + part) * KEPT + slot
    tl.store(kept_ptr + at, tl.where(slot < K, kept, float("-inf")))
    tl.store(spots_ptr + at, spots)


@triton.jit
def ranking_kernel(
    kept_ptr, spots_ptr, values_ptr, places_ptr, K, COUNT: tl.constexpr, STEP: tl.constexpr
):
    row, mine = tl.program_id(0), tl.arange(0, COUNT)
    value = tl.load(kept_ptr + row * COUNT + mine)
    place = tl.load(spots_ptr + row * COUNT + mine)
    rank = tl.zeros((COUNT,), dtype=tl.int32)
    for start in range(0, COUNT, STEP):
        other = tl.load(kept_ptr + row * COUNT + start + tl.arange(0, STEP))
        rank += tl.sum((other[None, :] > value[:, None]).to(tl.int32), axis=1)
    chosen = (rank < K) & (place >= 0)
    out = row * K + rank
    tl.store(values_ptr + out, value.to(values_ptr.dtype.element_ty), mask=chosen)
    tl.store(places_ptr + out, place, mask=chosen)


def valid(params, shape):
    """One to 32 elements a thread; parts with more than K elements, no shorter than a chunk."""
    chunk, part = params["CHUNK"], triton.cdiv(shape["N"], params["SPLITS"])
    fits = part > shape["K"] and chunk <= 2 * max(part, 32)
    return fits and 1 <= chunk / (32 * params["num_warps"]) <= 32


def kernel(x, k, *, CHUNK=128, SPLITS=1, RANK_STEP=4, num_warps=1):
    M, N = x.shape
    count = max(triton.next_power_of_2(k), 16)
    kept = torch.empty((M, SPLITS, count), dtype=torch.float32, device=x.device)
    spots = torch.empty((M, SPLITS, count), dtype=torch.int32, device=x.device)
    values = torch.empty((M, k), dtype=x.dtype, device=x.device)
    places = torch.empty((M, k), dtype=torch.int32, device=x.device)
    length = triton.cdiv(N, SPLITS)
    keeping_kernel[(M, SPLITS)](x, kept, spots, N, k, length, CHUNK, count, num_warps=num_warps)
    total = SPLITS * count
    ranking_kernel[(M,)](
        kept, spots, values, places, k, total, RANK_STEP, num_warps=max(1, total // 128)
    )
    return values, places
