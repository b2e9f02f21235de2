"""Block pointers, with the residual fetched before the product and added into its sum."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.gemm_epilogue.problem import SHAPES, TOLERANCE, inputs, itemsize, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "BLOCK_M": [32, 64, 128],
    "BLOCK_N": [32, 64, 128],
    "BLOCK_K": [16, 32, 64, 128],
    "EARLY_RESIDUAL": [False, True],
    "num_warps": [4, 8],
    "num_stages": [2, 3, 4],
}


@triton.jit
def early_residual_kernel(
    x_ptr, w_ptr, bias_ptr, residual_ptr, out_ptr, M, N, K,
    ACTIVATION: tl.constexpr, EARLY_RESIDUAL: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    m0, n0 = tl.program_id(1) * BLOCK_M, tl.program_id(0) * BLOCK_N
    shape: tl.constexpr = (BLOCK_M, BLOCK_N)
    residual_tile = tl.make_block_ptr(residual_ptr, (M, N), (N, 1), (m0, n0), shape, (1, 0))
    if EARLY_RESIDUAL:  # costs registers, but its latency passes while the product is made
        residual = tl.load(residual_tile, boundary_check=(0, 1))
    x_tile = tl.make_block_ptr(x_ptr, (M, K), (K, 1), (m0, 0), (BLOCK_M, BLOCK_K), (1, 0))
    w_tile = tl.make_block_ptr(w_ptr, (N, K), (K, 1), (n0, 0), (BLOCK_N, BLOCK_K), (1, 0))
    acc = tl.zeros(shape, dtype=tl.float32)
    for _ in range(0, K, BLOCK_K):
        x = tl.load(x_tile, boundary_check=(0, 1), padding_option="zero")
        w = tl.load(w_tile, boundary_check=(0, 1), padding_option="zero")
        acc = tl.dot(x, tl.trans(w), acc)
        x_tile = tl.advance(x_tile, (0, BLOCK_K))
        w_tile = tl.advance(w_tile, (0, BLOCK_K))
    n = n0 + tl.arange(0, BLOCK_N)
    h = acc + tl.load(bias_ptr + n, mask=n < N, other=0.0).to(tl.float32)[None, :]
    if ACTIVATION == "relu":
        h = tl.maximum(h, 0.0)
    elif ACTIVATION == "gelu":
        h *= tl.sigmoid(h * (1.5957691216057308 + 0.07135481282 * h * h))
    else:
        h *= tl.sigmoid(h)
    if not EARLY_RESIDUAL:
        residual = tl.load(residual_tile, boundary_check=(0, 1))
    out_tile = tl.make_block_ptr(out_ptr, (M, N), (N, 1), (m0, n0), shape, (1, 0))
    h += residual.to(tl.float32)
    tl.store(out_tile, h.to(out_ptr.dtype.element_ty), boundary_check=(0, 1))


def valid(params, shape):
    """The pipelined tiles fit in shared memory, accumulator and residual in registers."""
    m, n, k = params["BLOCK_M"], params["BLOCK_N"], params["BLOCK_K"]
    shared = params["num_stages"] * (m + n) * k * itemsize(shape)
    held = m * n / (32 * params["num_warps"])
    return shared <= 227 * 1024 and 8 <= held <= (64 if params["EARLY_RESIDUAL"] else 128)


def kernel(
    x, w, bias, residual, activation, *, BLOCK_M=64, BLOCK_N=128, BLOCK_K=32,
    EARLY_RESIDUAL=False, num_warps=4, num_stages=3,
):  # fmt: skip
    (M, K), N = x.shape, w.shape[0]
    out = torch.empty((M, N), dtype=x.dtype, device=x.device)
    early_residual_kernel[(triton.cdiv(N, BLOCK_N), triton.cdiv(M, BLOCK_M))](
        x, w, bias, residual, out, M, N, K, activation, EARLY_RESIDUAL,
        BLOCK_M, BLOCK_N, BLOCK_K, num_warps=num_warps, num_stages=num_stages,
    )  # fmt: skip
    return out
