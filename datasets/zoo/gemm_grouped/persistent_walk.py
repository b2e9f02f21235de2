"""Persistent programs that walk over the groups and take every so-manieth tile of them all."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.gemm_grouped.problem import SHAPES, TOLERANCE, inputs, itemsize, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "PROGRAMS": [132, 264, 528],
    "BLOCK_M": [16, 32, 64, 128],
    "BLOCK_N": [64, 128, 256],
    "BLOCK_K": [32, 64],
    "num_warps": [4, 8],
    "num_stages": [2, 3, 4],
}


@triton.jit
def walk_kernel(
    x_ptr, w_ptr, offsets_ptr, out_ptr, G, N, K,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    columns = tl.cdiv(N, BLOCK_N)
    done = 0  # tiles of the groups before
    begin = tl.load(offsets_ptr)
    for group in range(G):
        end = tl.load(offsets_ptr + group + 1)
        tiles = tl.cdiv(end - begin, BLOCK_M) * columns
        step = tl.num_programs(0)
        first = (tl.program_id(0) + step - done % step) % step
        for tile in range(first, tiles, step):
            m = begin + tile // columns * BLOCK_M + tl.arange(0, BLOCK_M)
            n = tile % columns * BLOCK_N + tl.arange(0, BLOCK_N)
            w_base = w_ptr + group * K * N
            acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
            for k0 in range(0, K, BLOCK_K):
                k = k0 + tl.arange(0, BLOCK_K)
                x_mask = (m[:, None] < end) & (k[None, :] < K)
                w_mask = (k[:, None] < K) & (n[None, :] < N)
                x = tl.load(x_ptr + m[:, None] * K + k[None, :], mask=x_mask, other=0.0)
                w = tl.load(w_base + k[:, None] * N + n[None, :], mask=w_mask, other=0.0)
                acc = tl.dot(x, w, acc)
            inside = (m[:, None] < end) & (n[None, :] < N)
            out = acc.to(out_ptr.dtype.element_ty)
            tl.store(out_ptr + m[:, None] * N + n[None, :], out, mask=inside)
        done += tiles
        begin = end


def valid(params, shape):
    """The pipelined tiles fit in shared memory (227 KiB), the accumulator in registers."""
    m, n, k = params["BLOCK_M"], params["BLOCK_N"], params["BLOCK_K"]
    shared = params["num_stages"] * (m + n) * k * itemsize(shape)
    return shared <= 227 * 1024 and 4 <= m * n / (32 * params["num_warps"]) <= 128


def kernel(
    x, w, offsets, sizes, *, PROGRAMS=132, BLOCK_M=64, BLOCK_N=128, BLOCK_K=32,
    num_warps=4, num_stages=3,
):  # fmt: skip
    (T, K), (G, _, N) = x.shape, w.shape
    out = torch.empty((T, N), dtype=x.dtype, device=x.device)
    walk_kernel[(PROGRAMS,)](
        x, w, offsets, out, G, N, K, BLOCK_M, BLOCK_N, BLOCK_K,
        num_warps=num_warps, num_stages=num_stages,
    )  # fmt: skip
    return out
