"""A program makes a tile of the real or of the imaginary part, from two products in one sum."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.gemm_complex.problem import SHAPES, TOLERANCE, inputs, itemsize, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]


SPACE = {
    "BLOCK_M": [64, 128],
    "BLOCK_N": [64, 128, 256],
    "BLOCK_K": [32, 64],
    "SIDE_BY_SIDE": [False, True],
    "num_warps": [4, 8],
    "num_stages": [2, 3, 4],
}


@triton.jit
def part_kernel(
    a_ptr, b_ptr, c_ptr, d_ptr, re_ptr, im_ptr, M, N, K, SIDE_BY_SIDE: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    tiles = tl.num_programs(0) // 2
    part = tl.program_id(0) % 2 if SIDE_BY_SIDE else tl.program_id(0) // tiles
    tile = tl.program_id(0) // 2 if SIDE_BY_SIDE else tl.program_id(0) % tiles
    high = tl.cdiv(M, BLOCK_M)
    m = tile % high * BLOCK_M + tl.arange(0, BLOCK_M)
    n = tile // high * BLOCK_N + tl.arange(0, BLOCK_N)
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    steps = tl.cdiv(K, BLOCK_K)
    for step in range(2 * steps):  # b first: its sum changes its sign before a's comes
        second = step >= steps
        k = (step - steps if second else step) * BLOCK_K + tl.arange(0, BLOCK_K)
        left = a_ptr if second else b_ptr
        right = c_ptr if second == (part == 0) else d_ptr
        x_mask = (m[:, None] < M) & (k[None, :] < K)
        w_mask = (k[:, None] < K) & (n[None, :] < N)
        x = tl.load(left + m[:, None] * K + k[None, :], mask=x_mask, other=0.0)
        w = tl.load(right + k[:, None] * N + n[None, :], mask=w_mask, other=0.0)
        sign = tl.where((step == steps) & (part == 0), -1.0, 1.0)
        acc = tl.dot(x, w, acc * sign)
    at = m[:, None] * N + n[None, :]
    inside = (m[:, None] < M) & (n[None, :] < N)
    to = re_ptr if part == 0 else im_ptr
    tl.store(to + at, acc.to(re_ptr.dtype.element_ty), mask=inside)


def valid(params, shape):
    """The pipelined tiles fit in shared memory, the accumulator in registers."""
    m, n, k = params["BLOCK_M"], params["BLOCK_N"], params["BLOCK_K"]
    shared = params["num_stages"] * (m + n) * k * itemsize(shape)
    return shared <= 227 * 1024 and 16 <= m * n / (32 * params["num_warps"]) <= 64


def kernel(
    a, b, c, d, *, BLOCK_M=128, BLOCK_N=128, BLOCK_K=32, SIDE_BY_SIDE=True,
    num_warps=8, num_stages=3,
):  # fmt: skip
    (M, K), N = a.shape, c.shape[1]
    re, im = (torch.empty((M, N), dtype=a.dtype, device=a.device) for _ in range(2))
    part_kernel[(2 * triton.cdiv(M, BLOCK_M) * triton.cdiv(N, BLOCK_N),)](
        a, b, c, d, re, im, M, N, K, SIDE_BY_SIDE, BLOCK_M, BLOCK_N, BLOCK_K,
        num_warps=num_warps, num_stages=num_stages,
    )  # fmt: skip
    return re, im
