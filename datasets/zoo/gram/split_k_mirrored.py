"""The lower half by split K with atomics, and a second kernel that rounds and mirrors it."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.gram.problem import SHAPES, TOLERANCE, inputs, itemsize, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "SPLIT": [1, 2, 4, 8],
    "BLOCK": [32, 64, 128],
    "BLOCK_K": [32, 64],
    "MIRROR": [32, 64],
    "num_warps": [4, 8],
    "num_stages": [2, 3],
}


@triton.jit
def half_kernel(
    x, total, M, K, SPLIT: tl.constexpr, BLOCK: tl.constexpr, BLOCK_K: tl.constexpr
):  # fmt: skip
    row, column = tl.program_id(1), tl.program_id(0)
    if column <= row:
        start = tl.program_id(2) * BLOCK_K
        a = tl.make_block_ptr(x, (M, K), (K, 1), (row * BLOCK, start), (BLOCK, BLOCK_K), (1, 0))
        b = tl.make_block_ptr(x, (K, M), (1, K), (start, column * BLOCK), (BLOCK_K, BLOCK), (0, 1))
        acc = tl.zeros((BLOCK, BLOCK), dtype=tl.float32)
        for _ in range(start, K, SPLIT * BLOCK_K):
            left = tl.load(a, boundary_check=(0, 1), padding_option="zero")
            right = tl.load(b, boundary_check=(0, 1), padding_option="zero")
            acc += tl.dot(left, right)
            a = tl.advance(a, (0, SPLIT * BLOCK_K))
            b = tl.advance(b, (SPLIT * BLOCK_K, 0))
        i = row * BLOCK + tl.arange(0, BLOCK)[:, None]
        j = column * BLOCK + tl.arange(0, BLOCK)[None, :]
        tl.atomic_add(total + i * M + j, acc, mask=(i < M) & (j < M), sem="relaxed")


@triton.jit
def mirror_kernel(total, out, M, SIDE: tl.constexpr):
    i = tl.program_id(1) * SIDE + tl.arange(0, SIDE)[:, None]
    j = tl.program_id(0) * SIDE + tl.arange(0, SIDE)[None, :]
    inside = (i < M) & (j < M)
    source = tl.maximum(i, j) * M + tl.minimum(i, j)
    values = tl.load(total + source, mask=inside)
    tl.store(out + i * M + j, values.to(out.dtype.element_ty), mask=inside)


def valid(params, shape):
    """The pipelined tiles fit in shared memory, sums in registers; parts have a block of K."""
    m, k = params["BLOCK"], params["BLOCK_K"]
    shared = params["num_stages"] * 2 * m * k * itemsize(shape)
    enough = params["SPLIT"] * k <= shape["K"]
    return enough and shared <= 227 * 1024 and 4 <= m * m / (32 * params["num_warps"]) <= 128


def kernel(x, *, SPLIT=1, BLOCK=64, BLOCK_K=32, MIRROR=32, num_warps=4, num_stages=3):
    M, K = x.shape
    total = torch.zeros((M, M), dtype=torch.float32, device=x.device)
    out = torch.empty((M, M), dtype=x.dtype, device=x.device)
    tiles, squares = triton.cdiv(M, BLOCK), triton.cdiv(M, MIRROR)
    half_kernel[(tiles, tiles, SPLIT)](
        x, total, M, K, SPLIT, BLOCK, BLOCK_K, num_warps=num_warps, num_stages=num_stages
    )
    mirror_kernel[(squares, squares)](total, out, M, MIRROR)
    return out
