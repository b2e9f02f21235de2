"""Horner's rule: one chain an element, coefficients read one by one as the loop runs."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.polynomial_evaluation.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]


SPACE = {
    "BLOCK": [128, 256, 512, 1024, 2048],
    "UNROLL": [1, 4, 16],
    "num_warps": [1, 2, 4, 8],
}


@triton.jit
def horner_kernel(x_ptr, c_ptr, out_ptr, N, DEGREE, BLOCK: tl.constexpr, UNROLL: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < N, other=0.0).to(tl.float32)
    total = tl.zeros((BLOCK,), dtype=tl.float32)
    for place in tl.range(0, DEGREE + 1, loop_unroll_factor=UNROLL):
        total = total * x + tl.load(c_ptr + DEGREE - place)
    tl.store(out_ptr + at, total.to(out_ptr.dtype.element_ty), mask=at < N)


def valid(params, shape):
    """One to 16 elements a thread."""
    return 1 <= params["BLOCK"] / (32 * params["num_warps"]) <= 16


def kernel(x, coefficients, *, BLOCK=1024, UNROLL=4, num_warps=4):
    out = torch.empty_like(x)
    N = x.numel()
    horner_kernel[(triton.cdiv(N, BLOCK),)](
        x, coefficients, out, N, len(coefficients) - 1, BLOCK, UNROLL, num_warps=num_warps
    )
    return out
