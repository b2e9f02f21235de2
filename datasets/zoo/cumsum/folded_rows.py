"""Two levels in a tile folded into STRIPS x LENGTH: scans of strips, shifted by their totals."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.cumsum.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "STRIPS": [8, 16, 32, 64, 128],
    "LENGTH": [4, 8, 16, 32, 64],
    "num_warps": [1, 2, 4, 8],
    "STAGES": [1, 2, 3],
}


@triton.jit
def folded_kernel(
    x_ptr, out_ptr, N, STRIPS: tl.constexpr, LENGTH: tl.constexpr, STAGES: tl.constexpr
):
    row = tl.program_id(0).to(tl.int64) * N
    strip = tl.arange(0, STRIPS)
    place = strip[:, None] * LENGTH + tl.arange(0, LENGTH)[None, :]
    before = 0.0
    for start in tl.range(0, N, STRIPS * LENGTH, num_stages=STAGES):
        inside = start + place < N
        x = tl.load(x_ptr + row + start + place, mask=inside, other=0.0).to(tl.float32)
        totals = tl.sum(x, axis=1)
        shift = tl.cumsum(totals, axis=0) - totals + before
        sums = tl.cumsum(x, axis=1) + shift[:, None]
        tl.store(out_ptr + row + start + place, sums.to(out_ptr.dtype.element_ty), mask=inside)
        before += tl.sum(totals, axis=0)


def valid(params, shape):
    """One to 64 elements a thread, no tile far longer than a row, up to 2048 of them."""
    tile = params["STRIPS"] * params["LENGTH"]
    return (
        1 <= tile / (32 * params["num_warps"]) <= 64 and shape["N"] / 2048 <= tile < 2 * shape["N"]
    )


def kernel(x, *, STRIPS=32, LENGTH=16, STAGES=2, num_warps=2):
    M, N = x.shape
    out = torch.empty_like(x)
    folded_kernel[(M,)](x, out, N, STRIPS, LENGTH, STAGES, num_warps=num_warps)
    return out
