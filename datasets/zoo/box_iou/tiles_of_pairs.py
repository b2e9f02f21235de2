"""Tiles of pairs; sides are loaded one by one, four apart."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.box_iou.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "BM": [1, 4, 16, 32],
    "BN": [64, 128, 256, 512],
    "num_warps": [2, 4, 8],
}


@triton.jit
def iou_kernel(a_ptr, b_ptr, out_ptr, M, N, BM: tl.constexpr, BN: tl.constexpr):
    m = tl.program_id(1) * BM + tl.arange(0, BM)[:, None]
    n = tl.program_id(0) * BN + tl.arange(0, BN)[None, :]
    a_left = tl.load(a_ptr + 4 * m, mask=m < M, other=0.0)
    a_top = tl.load(a_ptr + 4 * m + 1, mask=m < M, other=0.0)
    a_right = tl.load(a_ptr + 4 * m + 2, mask=m < M, other=1.0)
    a_bottom = tl.load(a_ptr + 4 * m + 3, mask=m < M, other=1.0)
    b_left = tl.load(b_ptr + 4 * n, mask=n < N, other=0.0)
    b_top = tl.load(b_ptr + 4 * n + 1, mask=n < N, other=0.0)
    b_right = tl.load(b_ptr + 4 * n + 2, mask=n < N, other=1.0)
    b_bottom = tl.load(b_ptr + 4 * n + 3, mask=n < N, other=1.0)
    across = tl.maximum(tl.minimum(a_right, b_right) - tl.maximum(a_left, b_left), 0.0)
    down = tl.maximum(tl.minimum(a_bottom, b_bottom) - tl.maximum(a_top, b_top), 0.0)
    both = across * down
    area_a = (a_right - a_left) * (a_bottom - a_top)
    area_b = (b_right - b_left) * (b_bottom - b_top)
    out = both / (area_a + area_b - both)
    at = m.to(tl.int64) * N + n
    tl.store(out_ptr + at, out.to(out_ptr.dtype.element_ty), mask=(m < M) & (n < N))


def valid(params, shape):
    """Two to 16 pairs a thread; not far more rows than there are, but for the default."""
    held = params["BM"] * params["BN"] / (32 * params["num_warps"])
    return 2 <= held <= 16 and (params["BM"] < 2 * shape["M"] or params["BM"] == 4)


def kernel(a, b, dtype, *, BM=4, BN=128, num_warps=4):
    M, N = a.shape[0], b.shape[0]
    out = torch.empty((M, N), dtype=dtype, device=a.device)
    grid = (triton.cdiv(N, BN), triton.cdiv(M, BM))
    iou_kernel[grid](a, b, out, M, N, BM, BN, num_warps=num_warps)
    return out
