"""One-hot tiles of chunks are summed; torch adds up the chunks; a second launch scans tiles."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.moe_routing.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "CHUNK": [32, 64, 128, 256, 512, 1024],
    "num_warps": [1, 2, 4, 8],
}


@triton.jit
def count_kernel(chosen_ptr, counts_ptr, N, E, CHUNK: tl.constexpr, EXPERTS: tl.constexpr):
    i = tl.program_id(0) * CHUNK + tl.arange(0, CHUNK)
    e = tl.arange(0, EXPERTS)
    expert = tl.load(chosen_ptr + i, mask=i < N, other=-1).to(tl.int32)
    hits = (expert[:, None] == e[None, :]).to(tl.int32)
    tl.store(counts_ptr + tl.program_id(0) * E + e, tl.sum(hits, axis=0), mask=e < E)


@triton.jit
def number_kernel(
    chosen_ptr, ends_ptr, places_ptr, N, E, CHUNK: tl.constexpr, EXPERTS: tl.constexpr
):
    chunk = tl.program_id(0)
    i = chunk * CHUNK + tl.arange(0, CHUNK)
    e = tl.arange(0, EXPERTS)
    expert = tl.load(chosen_ptr + i, mask=i < N, other=-1).to(tl.int32)
    hits = (expert[:, None] == e[None, :]).to(tl.int32)
    before = tl.load(ends_ptr + (chunk - 1) * E + e, mask=(e < E) & (chunk > 0), other=0)
    place = (tl.cumsum(hits, axis=0) + before[None, :]) * hits
    tl.store(places_ptr + i, tl.sum(place, axis=1) - 1, mask=i < N)


def valid(params, shape):
    """One to 64 comparisons a thread."""
    experts = 1 << (shape["E"] - 1).bit_length()
    return 1 <= params["CHUNK"] * experts / (32 * params["num_warps"]) <= 64


def kernel(chosen, experts, *, CHUNK=64, num_warps=4):
    N, wide = chosen.numel(), triton.next_power_of_2(experts)
    chunks = triton.cdiv(N, CHUNK)
    counts = torch.empty((chunks, experts), dtype=torch.int32, device=chosen.device)
    places = torch.empty(N, dtype=torch.int32, device=chosen.device)
    count_kernel[(chunks,)](chosen, counts, N, experts, CHUNK, wide, num_warps=num_warps)
    ends = counts.cumsum(0, dtype=torch.int32)
    number_kernel[(chunks,)](chosen, ends, places, N, experts, CHUNK, wide, num_warps=num_warps)
    return ends[-1], places
