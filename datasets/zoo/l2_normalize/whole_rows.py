"""Rows divided by their lengths, several whole rows a program held in registers."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.l2_normalize.problem import EPS, SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "ROWS": [1, 2, 4, 8, 16, 32],
    "RSQRT": [True, False],
    "LOAD_EVICT": ["", "evict_first", "evict_last"],
    "STORE_CACHE": ["", ".cs"],
    "num_warps": [1, 2, 4, 8, 16, 32],
}


@triton.jit
def whole_rows_kernel(
    x_ptr, out_ptr, M, N, eps, ROWS: tl.constexpr, BLOCK: tl.constexpr, RSQRT: tl.constexpr,
    LOAD_EVICT: tl.constexpr, STORE_CACHE: tl.constexpr,
):  # fmt: skip
    rows = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)[:, None]
    cols = tl.arange(0, BLOCK)[None, :]
    mask = (rows < M) & (cols < N)
    x = tl.load(x_ptr + rows * N + cols, mask=mask, other=0.0, eviction_policy=LOAD_EVICT)
    x = x.to(tl.float32)
    square = tl.sum(x * x, axis=1, keep_dims=True)
    out = (
        x * tl.rsqrt(tl.maximum(square, eps * eps))
        if RSQRT
        else x / tl.maximum(tl.sqrt(square), eps)
    )
    out = out.to(out_ptr.dtype.element_ty)
    tl.store(out_ptr + rows * N + cols, out, mask=mask, cache_modifier=STORE_CACHE)


def valid(params, shape):
    """One to 64 values a thread, of rows that registers hold."""
    block = triton.next_power_of_2(shape["N"])
    held = params["ROWS"] * block / (32 * params["num_warps"])
    return block <= 16384 and 1 <= held <= 64


def kernel(x, *, ROWS=1, RSQRT=True, LOAD_EVICT="", STORE_CACHE="", num_warps=8):
    M, N = x.shape
    out = torch.empty_like(x)
    whole_rows_kernel[(triton.cdiv(M, ROWS),)](
        x, out, M, N, EPS, ROWS, triton.next_power_of_2(N), RSQRT, LOAD_EVICT, STORE_CACHE,
        num_warps=num_warps,
    )  # fmt: skip
    return out
