"""Split K: fp32 parts, and a second kernel that adds them and does bias, activation, residual."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.gemm_epilogue.problem import SHAPES, TOLERANCE, inputs, itemsize, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "SPLIT_K": [2, 4, 8],
    "BLOCK_M": [32, 64, 128],
    "BLOCK_N": [32, 64, 128],
    "BLOCK_K": [32, 64],
    "num_warps": [4, 8],
    "num_stages": [2, 3],
}


@triton.jit
def activate(x, KIND: tl.constexpr):
    if KIND == "relu":
        return tl.maximum(x, 0.0)
    elif KIND == "silu":
        return x * tl.sigmoid(x)
    else:  # gelu; 0.5 * (1 + tanh(y)) is sigmoid(2 y)
        return x * tl.sigmoid(1.5957691216057308 * (x + 0.044715 * x * x * x))


@triton.jit
def part_kernel(
    x_ptr, w_ptr, part_ptr, M, N, K, LENGTH,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    part, m0, n0 = tl.program_id(0), tl.program_id(1) * BLOCK_M, tl.program_id(2) * BLOCK_N
    start = part * LENGTH
    x_tile = tl.make_block_ptr(x_ptr, (M, K), (K, 1), (m0, start), (BLOCK_M, BLOCK_K), (1, 0))
    w_tile = tl.make_block_ptr(w_ptr, (K, N), (1, K), (start, n0), (BLOCK_K, BLOCK_N), (0, 1))
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for _ in range(start, min(start + LENGTH, K), BLOCK_K):
        x = tl.load(x_tile, boundary_check=(0, 1), padding_option="zero")
        w = tl.load(w_tile, boundary_check=(0, 1), padding_option="zero")
        acc = tl.dot(x, w, acc)
        x_tile = tl.advance(x_tile, (0, BLOCK_K))
        w_tile = tl.advance(w_tile, (BLOCK_K, 0))
    part_ptr += part * M * N
    part_tile = tl.make_block_ptr(part_ptr, (M, N), (N, 1), (m0, n0), (BLOCK_M, BLOCK_N), (1, 0))
    tl.store(part_tile, acc, boundary_check=(0, 1))


@triton.jit
def finish_kernel(
    part_ptr, bias_ptr, residual_ptr, out_ptr, M, N,
    PARTS: tl.constexpr, ACTIVATION: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    n = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    at = tl.program_id(0) * N + n
    total = tl.load(bias_ptr + n, mask=n < N, other=0.0).to(tl.float32)
    for part in tl.static_range(PARTS):
        total += tl.load(part_ptr + part * M * N + at, mask=n < N, other=0.0)
    residual = tl.load(residual_ptr + at, mask=n < N, other=0.0).to(tl.float32)
    out = activate(total, ACTIVATION) + residual
    tl.store(out_ptr + at, out.to(out_ptr.dtype.element_ty), mask=n < N)


def valid(params, shape):
    """Tiles fit in shared memory; parts are not too short, the workspace is below 256 MiB."""
    m, n, k = params["BLOCK_M"], params["BLOCK_N"], params["BLOCK_K"]
    shared = params["num_stages"] * (m + n) * k * itemsize(shape)
    workspace = params["SPLIT_K"] * shape["M"] * shape["N"] * 4
    fits = shared <= 227 * 1024 and workspace <= 2**28 and shape["K"] >= 2 * k * params["SPLIT_K"]
    return fits and 4 <= m * n / (32 * params["num_warps"]) <= 128


def kernel(
    x, w, bias, residual, activation, *, SPLIT_K=2, BLOCK_M=64, BLOCK_N=64, BLOCK_K=64,
    num_warps=4, num_stages=3,
):  # fmt: skip
    (M, K), N = x.shape, w.shape[0]
    parts = torch.empty((SPLIT_K, M, N), dtype=torch.float32, device=x.device)
    out = torch.empty((M, N), dtype=x.dtype, device=x.device)
    length = triton.cdiv(triton.cdiv(K, BLOCK_K), SPLIT_K) * BLOCK_K
    part_kernel[(SPLIT_K, triton.cdiv(M, BLOCK_M), triton.cdiv(N, BLOCK_N))](
        x, w, parts, M, N, K, length, BLOCK_M, BLOCK_N, BLOCK_K,
        num_warps=num_warps, num_stages=num_stages,
    )  # fmt: skip
    finish_kernel[(M, triton.cdiv(N, 1024))](
        parts, bias, residual, out, M, N, SPLIT_K, activation, 1024
    )
    return out
