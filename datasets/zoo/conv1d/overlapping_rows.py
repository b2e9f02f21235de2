"""A plain product whose left rows overlap: row t begins at t * C and is R * C long."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.conv1d.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "BLOCK_M": [16, 32, 64, 128],
    "BLOCK_N": [32, 64, 128],
    "BLOCK_K": [16, 32, 64],
    "PROGRAMS": [0, 264],
    "num_warps": [2, 4, 8],
    "num_stages": [2, 3],
}


@triton.jit
def overlapping_kernel(
    x_ptr, weight_ptr, out_ptr, B, T, C, N, R,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    tiles_t, tiles_n = tl.cdiv(T, BLOCK_M), tl.cdiv(N, BLOCK_N)
    depth = R * C
    for tile in range(tl.program_id(0), B * tiles_t * tiles_n, tl.num_programs(0)):
        b, rest = tile // (tiles_t * tiles_n), tile % (tiles_t * tiles_n)
        m = rest // tiles_n * BLOCK_M + tl.arange(0, BLOCK_M)[:, None]
        n = rest % tiles_n * BLOCK_N + tl.arange(0, BLOCK_N)[None, :]
        acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
        for start in range(0, depth, BLOCK_K):
            k = start + tl.arange(0, BLOCK_K)
            at = (m - R // 2) * C + k[None, :]  # within the series, or outside of it
            known = (at >= 0) & (at < T * C) & (k[None, :] < depth) & (m < T)
            x = tl.load(x_ptr + b * T * C + at, mask=known, other=0.0)
            w_mask = (k[:, None] < depth) & (n < N)
            w = tl.load(weight_ptr + k[:, None] * N + n, mask=w_mask, other=0.0)
            acc = tl.dot(x, w, acc)
        out = out_ptr + (b * T + m) * N + n
        tl.store(out, acc.to(out_ptr.dtype.element_ty), mask=(m < T) & (n < N))


def valid(params, shape):
    """Tiles fit in shared memory, accumulators in registers; PROGRAMS = 0: one a tile."""
    m, n, k = params["BLOCK_M"], params["BLOCK_N"], params["BLOCK_K"]
    size = 4 if shape["dtype"] in ("float32", torch.float32) else 2
    shared = params["num_stages"] * (m + n) * k * size
    fits = shared <= 220 * 1024 and n < 2 * max(shape["K"], 32)
    return fits and 4 <= m * n / (32 * params["num_warps"]) <= 64


def kernel(x, weight, *, BLOCK_M=64, BLOCK_N=32, BLOCK_K=32, PROGRAMS=0, num_warps=4, num_stages=3):
    B, T, C = x.shape
    R, _, N = weight.shape
    out = torch.empty((B, T, N), dtype=x.dtype, device=x.device)
    tiles = B * triton.cdiv(T, BLOCK_M) * triton.cdiv(N, BLOCK_N)
    overlapping_kernel[(min(PROGRAMS or tiles, tiles),)](
        x, weight, out, B, T, C, N, R, BLOCK_M, BLOCK_N, BLOCK_K,
        num_warps=num_warps, num_stages=num_stages,
    )  # fmt: skip
    return out
