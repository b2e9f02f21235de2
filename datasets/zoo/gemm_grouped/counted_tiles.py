"""A grid for the most tiles there can be; each program finds its group by counting tiles."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.gemm_grouped.problem import SHAPES, TOLERANCE, inputs, itemsize, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "BLOCK_M": [16, 32, 64, 128],
    "BLOCK_N": [32, 64, 128, 256],
    "BLOCK_K": [32, 64],
    "num_warps": [4, 8],
    "num_stages": [2, 3, 4],
}


@triton.jit
def counted_kernel(
    x_ptr, w_ptr, offsets_ptr, out_ptr, N, K, G, GROUPS: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    # Tile rows before the end of each group: this program's group is the first with more.
    g = tl.arange(0, GROUPS)
    begins = tl.load(offsets_ptr + g, mask=g < G, other=0)
    ends = tl.load(offsets_ptr + g + 1, mask=g < G, other=0)
    tiles = (ends - begins + BLOCK_M - 1) // BLOCK_M
    until = tl.cumsum(tiles, axis=0)
    row_tile = tl.program_id(1)
    group = tl.sum((until <= row_tile).to(tl.int32))
    if group < G:
        before = tl.sum(tl.where(g < group, tiles, 0))
        first = tl.load(offsets_ptr + group)
        end = tl.load(offsets_ptr + group + 1)
        m = first + (row_tile - before) * BLOCK_M + tl.arange(0, BLOCK_M)
        n = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
        k = tl.arange(0, BLOCK_K)
        x_ptrs = x_ptr + m[:, None] * K + k[None, :]
        w_ptrs = w_ptr + group.to(tl.int64) * K * N + k[:, None] * N + n[None, :]
        acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
        for k0 in range(0, K, BLOCK_K):
            x = tl.load(x_ptrs, mask=(m[:, None] < end) & (k[None, :] < K - k0), other=0.0)
            w = tl.load(w_ptrs, mask=(k[:, None] < K - k0) & (n[None, :] < N), other=0.0)
            acc = tl.dot(x, w, acc)
            x_ptrs += BLOCK_K
            w_ptrs += BLOCK_K * N
        out_ptrs = out_ptr + m[:, None] * N + n[None, :]
        inside = (m[:, None] < end) & (n[None, :] < N)
        tl.store(out_ptrs, acc.to(out_ptr.dtype.element_ty), mask=inside)


def valid(params, shape):
    """The pipelined tiles fit in shared memory (227 KiB), the accumulator in registers."""
    m, n, k = params["BLOCK_M"], params["BLOCK_N"], params["BLOCK_K"]
    shared = params["num_stages"] * (m + n) * k * itemsize(shape)
    return shared <= 227 * 1024 and 4 <= m * n / (32 * params["num_warps"]) <= 128


def kernel(
    x, w, offsets, sizes, *, BLOCK_M=64, BLOCK_N=128, BLOCK_K=32, num_warps=4, num_stages=3
):  # fmt: skip
    (T, K), (G, _, N) = x.shape, w.shape
    out = torch.empty((T, N), dtype=x.dtype, device=x.device)
    most = triton.cdiv(T, BLOCK_M) + G  # each group may have one tile that is not full
    counted_kernel[(triton.cdiv(N, BLOCK_N), most)](
        x, w, offsets, out, N, K, G, triton.next_power_of_2(G), BLOCK_M, BLOCK_N, BLOCK_K,
        num_warps=num_warps, num_stages=num_stages,
    )  # fmt: skip
    return out
