"""The simple way out: fp8 is widened to 16 bits in registers and multiplied as such."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.gemm_fp8.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "TILE_M": [16, 32, 64, 128],
    "TILE_N": [32, 64, 128],
    "TILE_K": [32, 64, 128],
    "WIDE": ["float16", "bfloat16"],
    "num_warps": [4, 8],
    "num_stages": [1, 2, 3],
}


@triton.jit
def widened_kernel(
    x, w, x_scale, w_scale, y, M, N, K, WIDE: tl.constexpr,
    TILE_M: tl.constexpr, TILE_N: tl.constexpr, TILE_K: tl.constexpr,
):  # fmt: skip
    wide: tl.constexpr = tl.float16 if WIDE == "float16" else tl.bfloat16
    m0, n0 = tl.program_id(1) * TILE_M, tl.program_id(0) * TILE_N
    a = tl.make_block_ptr(x, (M, K), (K, 1), (m0, 0), (TILE_M, TILE_K), (1, 0))
    b = tl.make_block_ptr(w, (K, N), (1, K), (0, n0), (TILE_K, TILE_N), (0, 1))
    total = tl.zeros((TILE_M, TILE_N), dtype=tl.float32)
    for _ in range(tl.cdiv(K, TILE_K)):
        left = tl.load(a, boundary_check=(0, 1), padding_option="zero").to(wide)
        right = tl.load(b, boundary_check=(0, 1), padding_option="zero").to(wide)
        total += tl.dot(left, right)
        a = tl.advance(a, (0, TILE_K))
        b = tl.advance(b, (TILE_K, 0))
    rows, cols = m0 + tl.arange(0, TILE_M), n0 + tl.arange(0, TILE_N)
    total *= tl.load(x_scale + rows, mask=rows < M, other=0.0)[:, None]
    total *= tl.load(w_scale + cols, mask=cols < N, other=0.0)[None, :]
    inside = (rows[:, None] < M) & (cols[None, :] < N)
    tl.store(y + rows[:, None] * N + cols[None, :], total.to(y.dtype.element_ty), mask=inside)


def valid(params, shape):
    """The tiles, once as loaded and once widened, fit in shared memory; sums in registers."""
    m, n, k = params["TILE_M"], params["TILE_N"], params["TILE_K"]
    shared = params["num_stages"] * (m + n) * k + 2 * (m + n) * k
    return shared <= 227 * 1024 and 4 <= m * n / (32 * params["num_warps"]) <= 64


def kernel(
    x, w, x_scale, w_scale, dtype, *, TILE_M=32, TILE_N=64, TILE_K=64, WIDE="float16",
    num_warps=4, num_stages=2,
):  # fmt: skip
    (M, K), N = x.shape, w.shape[0]
    out = torch.empty((M, N), dtype=dtype, device=x.device)
    widened_kernel[(triton.cdiv(N, TILE_N), triton.cdiv(M, TILE_M))](
        x, w, x_scale, w_scale, out, M, N, K, WIDE, TILE_M, TILE_N, TILE_K,
        num_warps=num_warps, num_stages=num_stages,
    )  # fmt: skip
    return out
