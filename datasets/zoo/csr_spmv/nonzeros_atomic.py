"""Equal shares of nonzeros: each finds its row by bisection and is added to it atomically."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.csr_spmv.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]
SPACE = {
    "BLOCK": [64, 128, 256, 512, 1024, 2048],
    "CHUNKS": [1, 2, 4, 8],
    "SEM": ["relaxed", "acq_rel"],
    "num_warps": [1, 2, 4, 8],
}


@triton.jit
def nonzero_kernel(
    row_ptr, cols_ptr, values_ptr, x_ptr, sums_ptr, M, COUNT,
    BITS: tl.constexpr, BLOCK: tl.constexpr, CHUNKS: tl.constexpr, SEM: tl.constexpr,
):  # fmt: skip
    for chunk in tl.static_range(CHUNKS):
        i = (tl.program_id(0) * CHUNKS + chunk) * BLOCK + tl.arange(0, BLOCK)
        inside = i < COUNT
        # The last row that starts at i or before it, bit by bit from the highest.
        row = tl.zeros((BLOCK,), dtype=tl.int32)
        for bit in tl.static_range(BITS):
            further = row + (1 << (BITS - 1 - bit))
            starts = tl.load(row_ptr + further, mask=inside & (further < M), other=COUNT)
            row = tl.where(starts <= i, further, row)
        cols = tl.load(cols_ptr + i, mask=inside, other=0)
        a = tl.load(values_ptr + i, mask=inside, other=0.0).to(tl.float32)
        x = tl.load(x_ptr + cols, mask=inside, other=0.0).to(tl.float32)
        tl.atomic_add(sums_ptr + row, a * x, mask=inside, sem=SEM)


def valid(params, shape):
    """One to 16 nonzeros a thread; ordered atomics only where there are not too many."""
    few = shape["M"] * shape["PER_ROW"] <= 2**18
    fits = 1 <= params["BLOCK"] / (32 * params["num_warps"]) <= 16
    return fits and (few or params["SEM"] == "relaxed")


def kernel(row_ptr, cols, values, x, *, BLOCK=256, CHUNKS=1, SEM="relaxed", num_warps=4):
    M, count = row_ptr.numel() - 1, values.numel()
    sums = torch.zeros(M, dtype=torch.float32, device=x.device)
    nonzero_kernel[(triton.cdiv(count, BLOCK * CHUNKS),)](
        row_ptr, cols, values, x, sums, M, count, M.bit_length(), BLOCK, CHUNKS, SEM,
        num_warps=num_warps,
    )  # fmt: skip
    return sums.to(x.dtype)
