"""Gradient of softmax with one row a program, result and gradient held in registers."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.softmax_backward.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "KEEP_FP32": [True, False],
    "Y_EVICT": ["", "evict_first"],
    "DY_EVICT": ["", "evict_first"],
    "FACTORED": [True, False],
    "STORE_CACHE": ["", ".cs"],
    "num_warps": [1, 2, 4, 8, 16, 32],
}


@triton.jit
def whole_row_kernel(
    y_ptr, dy_ptr, dx_ptr, N, BLOCK: tl.constexpr, KEEP_FP32: tl.constexpr,
    Y_EVICT: tl.constexpr, DY_EVICT: tl.constexpr, FACTORED: tl.constexpr,
    STORE_CACHE: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64) * N
    cols = tl.arange(0, BLOCK)
    mask = cols < N
    y = tl.load(y_ptr + row + cols, mask=mask, other=0.0, eviction_policy=Y_EVICT)
    dy = tl.load(dy_ptr + row + cols, mask=mask, other=0.0, eviction_policy=DY_EVICT)
    if KEEP_FP32:
        y, dy = y.to(tl.float32), dy.to(tl.float32)
    product = y.to(tl.float32) * dy.to(tl.float32)
    dot = tl.sum(product, axis=0)
    dx = y.to(tl.float32) * (dy.to(tl.float32) - dot) if FACTORED else product - y * dot
    tl.store(dx_ptr + row + cols, dx, mask=mask, cache_modifier=STORE_CACHE)


def valid(params, shape):
    """One to 64 values of each input a thread, of rows that registers hold."""
    block = triton.next_power_of_2(shape["N"])
    return block <= 8192 and 1 <= block / (32 * params["num_warps"]) <= 64


def kernel(
    y, dy, *, KEEP_FP32=True, Y_EVICT="", DY_EVICT="", FACTORED=True, STORE_CACHE="", num_warps=4
):
    M, N = y.shape
    dx = torch.empty((M, N), dtype=torch.float32, device=y.device)
    whole_row_kernel[(M,)](
        y, dy, dx, N, triton.next_power_of_2(N), KEEP_FP32, Y_EVICT, DY_EVICT, FACTORED,
        STORE_CACHE, num_warps=num_warps,
    )  # fmt: skip
    return dx
