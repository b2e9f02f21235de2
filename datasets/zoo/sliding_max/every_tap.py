"""Each program reads its tile once for each place in the window; the caches serve most of it."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.sliding_max.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "BLOCK": [256, 512, 1024, 2048, 4096],
    "UNROLL": [1, 2, 4],
    "num_warps": [1, 2, 4, 8],
}


@triton.jit
def tap_kernel(x_ptr, out_ptr, N, window, BLOCK: tl.constexpr, UNROLL: tl.constexpr):
    x_ptr += tl.program_id(1).to(tl.int64) * N
    out_ptr += tl.program_id(1).to(tl.int64) * (N - window + 1)
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at <= N - window
    peak = tl.load(x_ptr + at, mask=inside, other=0.0).to(tl.float32)
    for tap in tl.range(1, window, loop_unroll_factor=UNROLL):
        x = tl.load(x_ptr + at + tap, mask=inside, other=0.0)
        peak = tl.maximum(peak, x.to(tl.float32))
    tl.store(out_ptr + at, peak.to(out_ptr.dtype.element_ty), mask=inside)


def valid(params, shape):
    """Four to 32 elements a thread, no tile far longer than a row."""
    fits = params["BLOCK"] < 2 * shape["N"] and params["UNROLL"] < shape["WINDOW"]
    return fits and 4 <= params["BLOCK"] / (32 * params["num_warps"]) <= 32


def kernel(x, window, *, BLOCK=512, UNROLL=4, num_warps=4):
    M, N = x.shape
    out = torch.empty((M, N - window + 1), dtype=x.dtype, device=x.device)
    grid = (triton.cdiv(N - window + 1, BLOCK), M)
    tap_kernel[grid](x, out, N, window, BLOCK, UNROLL, num_warps=num_warps)
    return out
