"""Matrix product x @ w.T in bf16 with tiles that the TMA unit copies."""

import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor

SHAPES = [{"M": 4096, "N": 2048, "K": 2048}]
SPACE = {
    "BLOCK_M": [64, 128, 256],
    "BLOCK_N": [32, 64, 128, 256],
    "BLOCK_K": [32, 64, 128],
    "num_warps": [4, 8],
    "num_stages": [2, 3, 4],
}
TOLERANCE = {"rtol": 1e-2, "atol": 2e-2}


def reference(x, w):
    return x @ w.T


def inputs(M=4096, N=2048, K=2048, dtype=torch.bfloat16, device="cuda"):
    x = torch.randn(M, K, dtype=dtype, device=device)
    return x, torch.randn(N, K, dtype=dtype, device=device) * K**-0.5


@triton.jit
def gemm_tma_kernel(
    x_tiles, w_tiles, out_tiles, K,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    m = tl.program_id(0) * BLOCK_M
    n = tl.program_id(1) * BLOCK_N
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for k in range(0, K, BLOCK_K):
        acc = tl.dot(x_tiles.load([m, k]), w_tiles.load([n, k]).T, acc)
    out_tiles.store([m, n], acc.to(out_tiles.dtype))


def valid(params, shape):
    """The pipelined tiles and the result fit in shared memory, the accumulator in registers."""
    m, n, k = params["BLOCK_M"], params["BLOCK_N"], params["BLOCK_K"]
    shared = params["num_stages"] * (m + n) * k * 2 + m * n * 2
    return shared <= 227 * 1024 and 8 <= m * n / (32 * params["num_warps"]) <= 128


def kernel(x, w, *, BLOCK_M=128, BLOCK_N=128, BLOCK_K=64, num_warps=8, num_stages=3):
    (M, K), N = x.shape, w.shape[0]
    out = torch.empty((M, N), dtype=x.dtype, device=x.device)
    gemm_tma_kernel[(triton.cdiv(M, BLOCK_M), triton.cdiv(N, BLOCK_N))](
        TensorDescriptor.from_tensor(x, [BLOCK_M, BLOCK_K]),
        TensorDescriptor.from_tensor(w, [BLOCK_N, BLOCK_K]),
        TensorDescriptor.from_tensor(out, [BLOCK_M, BLOCK_N]),
        K, BLOCK_M, BLOCK_N, BLOCK_K, num_warps=num_warps, num_stages=num_stages,
    )  # fmt: skip
    return out
