"""RMS normalisation by programs that stay: the weight is loaded once, rows are taken in turn."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.rms_norm.problem import EPS, SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "PROGRAMS": [132, 264, 528, 1056, 2112],
    "CONTIGUOUS": [False, True],
    "FLATTEN": [False, True],
    "num_warps": [1, 2, 4, 8, 16, 32],
    "num_stages": [1, 2, 3, 4],
}


@triton.jit
def persistent_kernel(
    x_ptr, weight_ptr, out_ptr, M, N, eps, share, BLOCK: tl.constexpr,
    CONTIGUOUS: tl.constexpr, FLATTEN: tl.constexpr,
):  # fmt: skip
    cols = tl.arange(0, BLOCK)
    mask = cols < N
    weight = tl.load(weight_ptr + cols, mask=mask, other=0.0).to(tl.float32)
    pid = tl.program_id(0).to(tl.int64)
    if CONTIGUOUS:
        first, last, step = pid * share, tl.minimum(pid * share + share, M), 1
    else:
        first, last, step = pid, M, tl.num_programs(0)
    for row in tl.range(first, last, step, flatten=FLATTEN):
        x = tl.load(x_ptr + row * N + cols, mask=mask, other=0.0).to(tl.float32)
        scale = tl.rsqrt(tl.sum(x * x, axis=0) / N + eps)
        out = (x * scale * weight).to(out_ptr.dtype.element_ty)
        tl.store(out_ptr + row * N + cols, out, mask=mask)


def valid(params, shape):
    """One to 32 values a thread, work for every program, stages that shared memory holds."""
    block = triton.next_power_of_2(shape["N"])
    fits = 4 * block * params["num_stages"] <= 227 * 1024
    held = block / (32 * params["num_warps"])
    return fits and params["PROGRAMS"] <= shape["M"] and 1 <= held <= 32 and block <= 8192


def kernel(x, weight, *, PROGRAMS=528, CONTIGUOUS=False, FLATTEN=False, num_warps=8, num_stages=2):
    M, N = x.shape
    out = torch.empty_like(x)
    share = triton.cdiv(M, PROGRAMS)
    programs = triton.cdiv(M, share) if CONTIGUOUS else min(PROGRAMS, M)
    persistent_kernel[(programs,)](
        x, weight, out, M, N, EPS, share, triton.next_power_of_2(N), CONTIGUOUS, FLATTEN,
        num_warps=num_warps, num_stages=num_stages,
    )  # fmt: skip
    return out
