"""Each element bisects the other row, and goes to the sum of both ranks; scattered stores."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.merge_sorted_rows.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "BLOCK": [128, 256, 512, 1024, 2048],
    "A_FIRST": [False, True],
    "num_warps": [1, 2, 4, 8],
}


@triton.jit
def rank_tile(x_ptr, other_ptr, out_ptr, n, n_other, tile, STEPS, ties, BLOCK: tl.constexpr):
    at = tile * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n, other=0.0)
    low = tl.zeros((BLOCK,), dtype=tl.int32)
    high = tl.zeros((BLOCK,), dtype=tl.int32) + n_other
    for _ in range(STEPS):
        middle = (low + high) // 2
        open_ = (low < high) & (at < n)
        y = tl.load(other_ptr + middle, mask=open_, other=0.0)
        right = open_ & ((y < x) | ((y == x) & (ties != 0)))
        low = tl.where(right, middle + 1, low)
        high = tl.where(open_ & (right == 0), middle, high)
    tl.store(out_ptr + at + low, x, mask=at < n)


@triton.jit
def merging_kernel(
    a_ptr, b_ptr, out_ptr, N1, N2, A_STEPS, B_STEPS, BLOCK: tl.constexpr, A_FIRST: tl.constexpr
):
    row = tl.program_id(1).to(tl.int64)
    a_ptr += row * N1
    b_ptr += row * N2
    out_ptr += row * (N1 + N2)
    tile = tl.program_id(0)
    of_a = tl.cdiv(N1, BLOCK)
    of_b = tl.cdiv(N2, BLOCK)
    is_a = tile < of_a if A_FIRST else tile >= of_b
    if is_a:
        place = tile if A_FIRST else tile - of_b
        rank_tile(a_ptr, b_ptr, out_ptr, N1, N2, place, B_STEPS, 0, BLOCK)
    else:
        place = tile - of_a if A_FIRST else tile
        rank_tile(b_ptr, a_ptr, out_ptr, N2, N1, place, A_STEPS, 1, BLOCK)


def valid(params, shape):
    """One to 16 elements a thread; blocks that the longer row fills."""
    fits = params["BLOCK"] < 2 * max(shape["N1"], shape["N2"])
    return fits and 1 <= params["BLOCK"] / (32 * params["num_warps"]) <= 16


def kernel(a, b, *, BLOCK=256, A_FIRST=True, num_warps=4):
    (M, N1), N2 = a.shape, b.shape[1]
    out = torch.empty((M, N1 + N2), dtype=a.dtype, device=a.device)
    grid = (triton.cdiv(N1, BLOCK) + triton.cdiv(N2, BLOCK), M)
    merging_kernel[grid](
        a, b, out, N1, N2, N1.bit_length(), N2.bit_length(), BLOCK, A_FIRST, num_warps=num_warps
    )
    return out
