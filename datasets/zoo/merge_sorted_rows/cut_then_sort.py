"""A tile of the result: two bisections find what it is made of, which tl.sort then orders."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.merge_sorted_rows.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "BLOCK": [128, 256, 512, 1024, 2048],
    "WIDEN": [False, True],
    "num_warps": [1, 2, 4, 8],
}


@triton.jit
def cut(a_ptr, b_ptr, N1, N2, place, STEPS):
    """How many of a are among the first `place`; ties are taken from a."""
    low = tl.maximum(place - N2, 0)
    high = tl.minimum(place, N1)
    for _ in range(STEPS):
        middle = (low + high) // 2
        open_ = low < high
        a = tl.load(a_ptr + middle, mask=open_, other=0.0)
        b = tl.load(b_ptr + place - 1 - middle, mask=open_, other=0.0)
        more = open_ & (a <= b)
        low = tl.where(more, middle + 1, low)
        high = tl.where(open_ & (more == 0), middle, high)
    return low


@triton.jit
def tile_kernel(a_ptr, b_ptr, out_ptr, N1, N2, STEPS, BLOCK: tl.constexpr, WIDEN: tl.constexpr):
    row = tl.program_id(1).to(tl.int64)
    a_ptr += row * N1
    b_ptr += row * N2
    start = tl.program_id(0) * BLOCK
    end = tl.minimum(start + BLOCK, N1 + N2)
    a_first = cut(a_ptr, b_ptr, N1, N2, start, STEPS)
    a_end = cut(a_ptr, b_ptr, N1, N2, end, STEPS)
    i = tl.arange(0, BLOCK)
    of_a = a_end - a_first
    a = tl.load(a_ptr + a_first + i, mask=i < of_a, other=float("inf"))
    from_b = (i >= of_a) & (start + i < end)
    b = tl.load(b_ptr + start - a_first + i - of_a, mask=from_b, other=float("inf"))
    both = tl.where(i < of_a, a, b)
    if WIDEN:
        both = both.to(tl.float32)
    both = tl.sort(both).to(out_ptr.dtype.element_ty)
    tl.store(out_ptr + row * (N1 + N2) + start + i, both, mask=start + i < end)


def valid(params, shape):
    """Two to 16 elements a thread; only 16-bit floats are widened."""
    widens = shape["dtype"] not in ("float32", torch.float32) or not params["WIDEN"]
    fits = params["BLOCK"] < 2 * (shape["N1"] + shape["N2"])
    return widens and fits and 2 <= params["BLOCK"] / (32 * params["num_warps"]) <= 16


def kernel(a, b, *, BLOCK=512, WIDEN=False, num_warps=4):
    (M, N1), N2 = a.shape, b.shape[1]
    out = torch.empty((M, N1 + N2), dtype=a.dtype, device=a.device)
    grid = (triton.cdiv(N1 + N2, BLOCK), M)
    steps = min(N1, N2).bit_length()
    tile_kernel[grid](a, b, out, N1, N2, steps, BLOCK, WIDEN, num_warps=num_warps)
    return out
