"""RMS normalisation in two loops over the row: one adds up squares, one writes."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.rms_norm.problem import EPS, SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "BLOCK": [128, 256, 512, 1024, 2048, 4096, 8192],
    "SCALAR_SUM": [False, True],
    "SECOND_EVICT": ["", "evict_first"],
    "num_warps": [1, 2, 4, 8, 16],
    "num_stages": [1, 2, 4],
}


@triton.jit
def two_loops_kernel(
    x_ptr, g_ptr, y_ptr, D, eps, BLOCK: tl.constexpr, SCALAR_SUM: tl.constexpr,
    SECOND_EVICT: tl.constexpr,
):  # fmt: skip
    token = tl.program_id(0).to(tl.int64)
    x_row = x_ptr + token * D
    y_row = y_ptr + token * D
    acc = 0.0 if SCALAR_SUM else tl.zeros([BLOCK], dtype=tl.float32)
    for d in range(0, D, BLOCK):
        i = d + tl.arange(0, BLOCK)
        v = tl.load(x_row + i, mask=i < D, other=0.0).to(tl.float32)
        acc += tl.sum(v * v, axis=0) if SCALAR_SUM else v * v
    ss = acc if SCALAR_SUM else tl.sum(acc, axis=0)
    r = tl.rsqrt(ss / D + eps)
    for d in range(0, D, BLOCK):
        i = d + tl.arange(0, BLOCK)
        g = tl.load(g_ptr + i, mask=i < D).to(tl.float32)
        v = tl.load(x_row + i, mask=i < D, eviction_policy=SECOND_EVICT).to(tl.float32)
        tl.store(y_row + i, (v * r * g).to(y_ptr.dtype.element_ty), mask=i < D)


def valid(params, shape):
    """One to 32 values a thread, and no block far longer than a row."""
    held = params["BLOCK"] / (32 * params["num_warps"])
    return 1 <= held <= 32 and (params["BLOCK"] <= 512 or params["BLOCK"] < 2 * shape["N"])


def kernel(x, weight, *, BLOCK=512, SCALAR_SUM=False, SECOND_EVICT="", num_warps=4, num_stages=2):
    M, D = x.shape
    y = torch.empty_like(x)
    two_loops_kernel[(M,)](
        x, weight, y, D, EPS, BLOCK, SCALAR_SUM, SECOND_EVICT,
        num_warps=num_warps, num_stages=num_stages,
    )  # fmt: skip
    return y
