"""Residual and RMS normalisation by programs that stay, with the weight in registers."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.add_rms_norm.problem import EPS, SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "PROGRAMS": [132, 264, 528, 1056],
    "CONTIGUOUS": [False, True],
    "STORE_CACHE": ["", ".cs"],
    "num_warps": [2, 4, 8, 16, 32],
    "num_stages": [1, 2, 3],
}


@triton.jit
def persistent_kernel(
    x_ptr, residual_ptr, weight_ptr, out_ptr, total_ptr, M, N, eps, BLOCK: tl.constexpr,
    CONTIGUOUS: tl.constexpr, STORE_CACHE: tl.constexpr,
):  # fmt: skip
    cols = tl.arange(0, BLOCK)
    mask = cols < N
    weight = tl.load(weight_ptr + cols, mask=mask, other=0.0).to(tl.float32)
    pid, programs = tl.program_id(0).to(tl.int64), tl.num_programs(0)
    if CONTIGUOUS:  # shares that differ by one row at most
        first, last, step = pid * M // programs, (pid + 1) * M // programs, 1
    else:
        first, last, step = pid, M, programs
    for row in tl.range(first, last, step):
        at = row * N + cols
        x = tl.load(x_ptr + at, mask=mask, other=0.0).to(tl.float32)
        total = x + tl.load(residual_ptr + at, mask=mask, other=0.0).to(tl.float32)
        scale = tl.rsqrt(tl.sum(total * total, axis=0) / N + eps)
        out = (total * scale * weight).to(out_ptr.dtype.element_ty)
        total = total.to(total_ptr.dtype.element_ty)
        tl.store(total_ptr + at, total, mask=mask, cache_modifier=STORE_CACHE)
        tl.store(out_ptr + at, out, mask=mask, cache_modifier=STORE_CACHE)


def valid(params, shape):
    """One to 32 values a thread, work for every program, stages that shared memory holds."""
    block = triton.next_power_of_2(shape["N"])
    fits = 8 * block * params["num_stages"] <= 227 * 1024
    busy = params["PROGRAMS"] <= shape["M"]
    return busy and fits and block <= 8192 and 1 <= block / (32 * params["num_warps"]) <= 32


def kernel(
    x, residual, weight, *, PROGRAMS=264, CONTIGUOUS=False, STORE_CACHE="", num_warps=8,
    num_stages=2,
):  # fmt: skip
    M, N = x.shape
    out, total = torch.empty_like(x), torch.empty_like(x)
    persistent_kernel[(min(PROGRAMS, M),)](
        x, residual, weight, out, total, M, N, EPS, triton.next_power_of_2(N), CONTIGUOUS,
        STORE_CACHE, num_warps=num_warps, num_stages=num_stages,
    )  # fmt: skip
    return out, total
