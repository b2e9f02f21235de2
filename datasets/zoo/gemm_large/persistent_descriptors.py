"""Persistent programs with descriptors made on the device; the result leaves in SLICES."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.gemm_large.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]


SPACE = {
    "BLOCK_M": [128],
    "BLOCK_N": [128, 256],
    "BLOCK_K": [32, 64, 128],
    "GROUP_M": [4, 16],
    "SLICES": [1, 2, 4],
    "FLATTEN": [False, True],
    "num_stages": [3, 4],
}
SMS = 132  # of an H100 SXM or H200


@triton.jit
def store_slices(tiles, m, n, part, SLICES: tl.constexpr):
    """Stores one, two or four slices of columns, each half as wide as what it is cut from."""
    if SLICES == 1:
        tiles.store([m, n], part.to(tiles.dtype))
    else:
        HALF: tl.constexpr = part.shape[1] // 2
        left, right = part.reshape(part.shape[0], 2, HALF).permute(0, 2, 1).split()
        store_slices(tiles, m, n, left, SLICES // 2)
        store_slices(tiles, m, n + HALF, right, SLICES // 2)


@triton.jit
def persistent_kernel(
    x_ptr, w_ptr, out_ptr, M, N, K,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
    GROUP_M: tl.constexpr, SLICES: tl.constexpr, FLATTEN: tl.constexpr,
):  # fmt: skip
    x_tiles = tl.make_tensor_descriptor(x_ptr, [M, K], [K, 1], [BLOCK_M, BLOCK_K])
    w_tiles = tl.make_tensor_descriptor(w_ptr, [N, K], [K, 1], [BLOCK_N, BLOCK_K])
    out_tiles = tl.make_tensor_descriptor(out_ptr, [M, N], [N, 1], [BLOCK_M, BLOCK_N // SLICES])
    high, wide = tl.cdiv(M, BLOCK_M), tl.cdiv(N, BLOCK_N)
    steps = tl.cdiv(K, BLOCK_K)
    for tile in tl.range(tl.program_id(0), high * wide, tl.num_programs(0), flatten=FLATTEN):
        group = tile // (GROUP_M * wide)
        height = min(high - group * GROUP_M, GROUP_M)
        m = (group * GROUP_M + tile % (GROUP_M * wide) % height) * BLOCK_M
        n = tile % (GROUP_M * wide) // height * BLOCK_N
        acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
        for step in range(steps):
            k = step * BLOCK_K
            acc = tl.dot(x_tiles.load([m, k]), w_tiles.load([n, k]).T, acc)
        store_slices(out_tiles, m, n, acc, SLICES)


def scratch(size, _alignment, _stream):
    """Where the device's descriptors lie."""
    return torch.empty(size, dtype=torch.int8, device="cuda")


def valid(params, shape):
    """Rows start at multiples of 16 bytes; tiles and a slice fit in shared memory."""
    m, n, k = params["BLOCK_M"], params["BLOCK_N"], params["BLOCK_K"]
    if shape["K"] % 8 or shape["N"] % 8:
        return False
    return (params["num_stages"] * (m + n) * k + m * n // params["SLICES"]) * 2 <= 227 * 1024


def kernel(
    x, w, *, BLOCK_M=128, BLOCK_N=128, BLOCK_K=64, GROUP_M=16, SLICES=2, FLATTEN=False,
    num_warps=8, num_stages=4,
):  # fmt: skip
    (M, K), N = x.shape, w.shape[0]
    out = torch.empty((M, N), dtype=x.dtype, device=x.device)
    triton.set_allocator(scratch)
    tiles = triton.cdiv(M, BLOCK_M) * triton.cdiv(N, BLOCK_N)
    persistent_kernel[(min(SMS, tiles),)](
        x, w, out, M, N, K, BLOCK_M, BLOCK_N, BLOCK_K, GROUP_M, SLICES, FLATTEN,
        num_warps=num_warps, num_stages=num_stages,
    )  # fmt: skip
    return out
