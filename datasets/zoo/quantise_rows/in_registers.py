"""Each row is read once and held in registers; codes come from a product with 127 / largest."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.quantise_rows.problem import SHAPES, check, inputs, reference

__all__ = ["SHAPES", "SPACE", "check", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "ROWS": [1, 2, 4, 8, 16],
    "MAGIC": [True, False],
    "LOAD": ["", "evict_first"],
    "STORE": ["", ".cs"],
    "num_warps": [1, 2, 4, 8, 16, 32],
}


@triton.jit
def quantise_held_kernel(
    x_ptr, codes_ptr, scale_ptr, M, N,
    ROWS: tl.constexpr, BLOCK: tl.constexpr, MAGIC: tl.constexpr,
    LOAD: tl.constexpr, STORE: tl.constexpr,
):  # fmt: skip
    rows = tl.program_id(0) * ROWS + tl.arange(0, ROWS)[:, None]
    cols = tl.arange(0, BLOCK)[None, :]
    inside = (rows < M) & (cols < N)
    offsets = rows * N + cols
    x = tl.load(x_ptr + offsets, mask=inside, other=0.0, eviction_policy=LOAD).to(tl.float32)
    largest = tl.maximum(tl.max(tl.abs(x), axis=1, keep_dims=True), 1e-12)
    y = x * tl.fdiv(127.0, largest)
    # adding 1.5 · 2^23 leaves the nearest integer in the mantissa's low bits
    code = (y + 12582912.0) - 12582912.0 if MAGIC else tl.floor(y + 0.5)
    tl.store(codes_ptr + offsets, code.to(tl.int8), mask=inside, cache_modifier=STORE)
    tl.store(scale_ptr + rows, largest * (1.0 / 127.0), mask=rows < M)


def valid(params, shape):
    """A row in registers: one to 128 values a thread."""
    block = 1 << (shape["N"] - 1).bit_length()
    return 1 <= params["ROWS"] * block / (32 * params["num_warps"]) <= 128


def kernel(x, *, ROWS=1, MAGIC=False, LOAD="", STORE="", num_warps=8):
    M, N = x.shape
    block = triton.next_power_of_2(N)
    codes = torch.empty((M, N), dtype=torch.int8, device=x.device)
    scale = torch.empty(M, dtype=torch.float32, device=x.device)
    quantise_held_kernel[(triton.cdiv(M, ROWS),)](
        x, codes, scale, M, N, ROWS, block, MAGIC, LOAD, STORE, num_warps=num_warps
    )
    return codes, scale
