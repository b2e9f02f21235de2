"""TMA for x, w, residual and result, programs in persistent rows of tiles."""

import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor

from solkit.datasets.zoo.gemm_epilogue.problem import SHAPES, TOLERANCE, inputs, itemsize, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "PROGRAMS": [132, 264],
    "BLOCK_M": [64, 128],
    "BLOCK_N": [32, 64, 128, 256],
    "BLOCK_K": [32, 64, 128],
    "num_warps": [4, 8],
    "num_stages": [2, 3, 4],
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
def tma_fused_kernel(
    x_tiles, w_tiles, residual_tiles, out_tiles, bias_ptr, M, N, K, ACTIVATION: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    tiles_m = tl.cdiv(M, BLOCK_M)
    for tile in range(tl.program_id(0), tiles_m * tl.cdiv(N, BLOCK_N), tl.num_programs(0)):
        m, n = tile % tiles_m * BLOCK_M, tile // tiles_m * BLOCK_N
        acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
        for k in range(0, K, BLOCK_K):
            acc = tl.dot(x_tiles.load([m, k]), w_tiles.load([n, k]).T, acc)
        columns = n + tl.arange(0, BLOCK_N)
        bias = tl.load(bias_ptr + columns, mask=columns < N, other=0.0).to(tl.float32)
        out = activate(acc + bias[None, :], ACTIVATION)
        out += residual_tiles.load([m, n]).to(tl.float32)
        out_tiles.store([m, n], out.to(out_tiles.dtype))


def valid(params, shape):
    """Rows start at multiples of 16 bytes; operands, residual and result fit in shared memory."""
    m, n, k = params["BLOCK_M"], params["BLOCK_N"], params["BLOCK_K"]
    size = itemsize(shape)
    if shape["K"] * size % 16 or shape["N"] * size % 16:
        return False
    shared = (params["num_stages"] * (m + n) * k + 2 * m * n) * size
    return shared <= 227 * 1024 and 8 <= m * n / (32 * params["num_warps"]) <= 128


def kernel(
    x, w, bias, residual, activation, *, PROGRAMS=132, BLOCK_M=128, BLOCK_N=64, BLOCK_K=32,
    num_warps=4, num_stages=3,
):  # fmt: skip
    (M, K), N = x.shape, w.shape[0]
    out = torch.empty((M, N), dtype=x.dtype, device=x.device)
    tiles = triton.cdiv(M, BLOCK_M) * triton.cdiv(N, BLOCK_N)
    tma_fused_kernel[(min(PROGRAMS, tiles),)](
        TensorDescriptor.from_tensor(x, [BLOCK_M, BLOCK_K]),
        TensorDescriptor.from_tensor(w, [BLOCK_N, BLOCK_K]),
        TensorDescriptor.from_tensor(residual, [BLOCK_M, BLOCK_N]),
        TensorDescriptor.from_tensor(out, [BLOCK_M, BLOCK_N]),
        bias, M, N, K, activation, BLOCK_M, BLOCK_N, BLOCK_K,
        num_warps=num_warps, num_stages=num_stages,
    )  # fmt: skip
    return out
