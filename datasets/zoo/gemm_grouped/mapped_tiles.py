"""A first kernel writes which group each tile row is of; the second looks it up, as vLLM does."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.gemm_grouped.problem import SHAPES, TOLERANCE, inputs, itemsize, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "BLOCK_M": [16, 32, 64, 128],
    "BLOCK_N": [32, 64, 128],
    "BLOCK_K": [32, 64, 128],
    "GROUP_N": [1, 4],
    "num_warps": [4, 8],
    "num_stages": [2, 3, 4],
}


@triton.jit
def map_kernel(offsets_ptr, group_ptr, start_ptr, BLOCK_M: tl.constexpr):
    group = tl.program_id(0)
    before = 0
    for other in range(group):
        rows = tl.load(offsets_ptr + other + 1) - tl.load(offsets_ptr + other)
        before += tl.cdiv(rows, BLOCK_M)
    begin = tl.load(offsets_ptr + group)
    for i in range(tl.cdiv(tl.load(offsets_ptr + group + 1) - begin, BLOCK_M)):
        tl.store(group_ptr + before + i, group)
        tl.store(start_ptr + before + i, begin + i * BLOCK_M)


@triton.jit
def mapped_kernel(
    x_ptr, w_ptr, offsets_ptr, group_ptr, start_ptr, out_ptr, N, K, ROW_TILES,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, GROUP_N: tl.constexpr,
):  # fmt: skip
    band = tl.program_id(0) // (GROUP_N * ROW_TILES)
    width = min(tl.cdiv(N, BLOCK_N) - band * GROUP_N, GROUP_N)
    place = tl.program_id(0) % (GROUP_N * ROW_TILES)
    tile = place // width
    group = tl.load(group_ptr + tile)
    if group < 0:
        return
    m = tl.load(start_ptr + tile) + tl.arange(0, BLOCK_M)
    end = tl.load(offsets_ptr + group + 1)
    n0 = (band * GROUP_N + place % width) * BLOCK_N
    n = n0 + tl.arange(0, BLOCK_N)
    w_base = w_ptr + group.to(tl.int64) * K * N
    w_tile = tl.make_block_ptr(w_base, (K, N), (N, 1), (0, n0), (BLOCK_K, BLOCK_N), (1, 0))
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for k0 in range(0, K, BLOCK_K):
        k = k0 + tl.arange(0, BLOCK_K)
        x_mask = (m[:, None] < end) & (k[None, :] < K)
        x = tl.load(x_ptr + m[:, None] * K + k[None, :], mask=x_mask, other=0.0)
        acc = tl.dot(x, tl.load(w_tile, boundary_check=(0, 1), padding_option="zero"), acc)
        w_tile = tl.advance(w_tile, (BLOCK_K, 0))
    out = acc.to(out_ptr.dtype.element_ty)
    inside = (m[:, None] < end) & (n[None, :] < N)
    tl.store(out_ptr + m[:, None] * N + n[None, :], out, mask=inside)


def valid(params, shape):
    """The pipelined tiles fit in shared memory (227 KiB), the accumulator in registers."""
    m, n, k = params["BLOCK_M"], params["BLOCK_N"], params["BLOCK_K"]
    shared = params["num_stages"] * (m + n) * k * itemsize(shape)
    return shared <= 227 * 1024 and 4 <= m * n / (32 * params["num_warps"]) <= 128


def kernel(
    x, w, offsets, sizes, *, BLOCK_M=32, BLOCK_N=128, BLOCK_K=64, GROUP_N=1,
    num_warps=4, num_stages=3,
):  # fmt: skip
    (T, K), (G, _, N) = x.shape, w.shape
    most = triton.cdiv(T, BLOCK_M) + G
    groups = torch.full((most,), -1, dtype=torch.int32, device=x.device)
    starts = torch.empty_like(groups)
    out = torch.empty((T, N), dtype=x.dtype, device=x.device)
    map_kernel[(G,)](offsets, groups, starts, BLOCK_M, num_warps=1)
    mapped_kernel[(triton.cdiv(N, BLOCK_N) * most,)](
        x, w, offsets, groups, starts, out, N, K, most, BLOCK_M, BLOCK_N, BLOCK_K, GROUP_N,
        num_warps=num_warps, num_stages=num_stages,
    )  # fmt: skip
    return out
