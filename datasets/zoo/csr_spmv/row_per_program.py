"""The textbook vector form: a row a program, in chunks, summed at the end."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.csr_spmv.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]
SPACE = {
    "BLOCK": [32, 64, 128, 256, 512, 1024],
    "EVICT": ["", "evict_first"],
    "SUM_EACH": [False, True],
    "num_warps": [1, 2, 4, 8],
    "num_stages": [1, 2, 4],
}


@triton.jit
def row_kernel(
    row_ptr, cols_ptr, values_ptr, x_ptr, out_ptr,
    BLOCK: tl.constexpr, EVICT: tl.constexpr, SUM_EACH: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0)
    first, last = tl.load(row_ptr + row), tl.load(row_ptr + row + 1)
    total = 0.0
    acc = tl.zeros((BLOCK,), dtype=tl.float32)
    for start in range(first, last, BLOCK):
        i = start + tl.arange(0, BLOCK)
        inside = i < last
        col = tl.load(cols_ptr + i, mask=inside, other=0, eviction_policy=EVICT)
        a = tl.load(values_ptr + i, mask=inside, other=0.0, eviction_policy=EVICT)
        x = tl.load(x_ptr + col, mask=inside, other=0.0)
        products = a.to(tl.float32) * x.to(tl.float32)
        if SUM_EACH:
            total += tl.sum(products, axis=0)
        else:
            acc += products
    if not SUM_EACH:
        total = tl.sum(acc, axis=0)
    tl.store(out_ptr + row, total)


def valid(params, shape):
    """One to 16 nonzeros a thread, chunks up to four times the mean row."""
    block, threads = params["BLOCK"], 32 * params["num_warps"]
    return 1 <= block / threads <= 16 and block <= max(256, 4 * shape["PER_ROW"])


def kernel(
    row_ptr, cols, values, x, *, BLOCK=128, EVICT="", SUM_EACH=False, num_warps=1, num_stages=2
):
    M = row_ptr.numel() - 1
    out = torch.empty(M, dtype=x.dtype, device=x.device)
    row_kernel[(M,)](
        row_ptr, cols, values, x, out, BLOCK, EVICT, SUM_EACH,
        num_warps=num_warps, num_stages=num_stages,
    )  # fmt: skip
    return out
