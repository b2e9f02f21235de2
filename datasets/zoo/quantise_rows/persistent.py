"""A fixed number of programs takes rows in turn; the next row is on its way while one is coded."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.quantise_rows.problem import SHAPES, check, inputs, reference

__all__ = ["SHAPES", "SPACE", "check", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "PROGRAMS": [132, 264, 396, 528, 1056],
    "PREFETCH": [True, False],
    "RECIPROCAL": [True, False],
    "EVICTION": ["", "evict_first"],
    "num_warps": [1, 2, 4, 8, 16],
}


@triton.jit
def store_codes(x, codes_ptr, scale_ptr, row, cols, N, RECIPROCAL: tl.constexpr):
    x = x.to(tl.float32)
    scale = tl.maximum(tl.max(tl.abs(x), axis=0), 1e-12) / 127.0
    tl.store(scale_ptr + row, scale)
    y = x * (1.0 / scale) if RECIPROCAL else x / scale
    tl.store(codes_ptr + row * N + cols, tl.floor(y + 0.5).to(tl.int8), mask=cols < N)


@triton.jit
def quantise_persistent_kernel(
    x_ptr, codes_ptr, scale_ptr, M, N,
    BLOCK: tl.constexpr, PREFETCH: tl.constexpr, RECIPROCAL: tl.constexpr,
    EVICTION: tl.constexpr,
):  # fmt: skip
    cols = tl.arange(0, BLOCK)
    row, stride = tl.program_id(0), tl.num_programs(0)
    if PREFETCH:
        x = tl.load(x_ptr + row * N + cols, mask=cols < N, other=0.0, eviction_policy=EVICTION)
        for here in range(row, M, stride):
            there = here + stride
            ahead = (cols < N) & (there < M)
            source = x_ptr + there * N + cols
            following = tl.load(source, mask=ahead, other=0.0, eviction_policy=EVICTION)
            store_codes(x, codes_ptr, scale_ptr, here, cols, N, RECIPROCAL)
            x = following
    else:
        for here in range(row, M, stride):
            source = x_ptr + here * N + cols
            x = tl.load(source, mask=cols < N, other=0.0, eviction_policy=EVICTION)
            store_codes(x, codes_ptr, scale_ptr, here, cols, N, RECIPROCAL)


def valid(params, shape):
    """One to 128 values a thread, two rows of them where one is prefetched; many rows."""
    block = 1 << (shape["N"] - 1).bit_length()
    held = block / (32 * params["num_warps"])
    busy = 2 * params["PROGRAMS"] <= shape["M"] or params["PROGRAMS"] == 132 <= shape["M"]
    return 1 <= held <= (64 if params["PREFETCH"] else 128) and busy


def kernel(x, *, PROGRAMS=132, PREFETCH=False, RECIPROCAL=True, EVICTION="", num_warps=8):
    M, N = x.shape
    codes = torch.empty((M, N), dtype=torch.int8, device=x.device)
    scale = torch.empty(M, dtype=torch.float32, device=x.device)
    block = triton.next_power_of_2(N)
    quantise_persistent_kernel[(min(PROGRAMS, M),)](
        x, codes, scale, M, N, block, PREFETCH, RECIPROCAL, EVICTION, num_warps=num_warps
    )
    return codes, scale
