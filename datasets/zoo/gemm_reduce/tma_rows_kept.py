"""TMA brings a band of x once, whole, and then one band of w after the other."""

import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor

from solkit.datasets.zoo.gemm_reduce.problem import SHAPES, TOLERANCE, inputs, itemsize, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]


SPACE = {
    "BLOCK_M": [64, 128],
    "BLOCK_N": [32, 64, 128],
    "SHARES": [1, 4, 16],
    "num_warps": [4, 8],
    "num_stages": [1, 2, 3],
}


@triton.jit
def kept_kernel(
    x_tiles, w_tiles, out_ptr, M, N, LENGTH,
    DEEP: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    m0 = tl.program_id(0) * BLOCK_M
    x = x_tiles.load([m0, 0])
    best = tl.full((BLOCK_M,), float("-inf"), dtype=tl.float32)
    first = tl.program_id(1) * LENGTH
    for n in range(first, min(first + LENGTH, N), BLOCK_N):
        scores = tl.dot(x, w_tiles.load([n, 0]).T)
        scores = tl.where((n + tl.arange(0, BLOCK_N))[None, :] < N, scores, float("-inf"))
        best = tl.maximum(best, tl.max(scores, axis=1))
    m = m0 + tl.arange(0, BLOCK_M)
    tl.atomic_max(out_ptr + m, best, mask=m < M, sem="relaxed")


def valid(params, shape):
    """A power of two deep, 16-byte rows, and all fits in shared memory."""
    m, n, deep = params["BLOCK_M"], params["BLOCK_N"], shape["K"]
    if deep & (deep - 1) or deep > 512:
        return False
    shared = (m + params["num_stages"] * n) * deep * itemsize(shape)
    return shared <= 220 * 1024 and 8 <= m * n / (32 * params["num_warps"]) <= 64


def kernel(x, w, *, BLOCK_M=64, BLOCK_N=64, SHARES=4, num_warps=4, num_stages=2):
    (M, K), N = x.shape, w.shape[0]
    out = torch.full((M,), float("-inf"), dtype=torch.float32, device=x.device)
    length = triton.cdiv(triton.cdiv(N, BLOCK_N), SHARES) * BLOCK_N
    kept_kernel[(triton.cdiv(M, BLOCK_M), triton.cdiv(N, length))](
        TensorDescriptor.from_tensor(x, [BLOCK_M, K]),
        TensorDescriptor.from_tensor(w, [BLOCK_N, K]),
        out, M, N, length, K, BLOCK_M, BLOCK_N, num_warps=num_warps, num_stages=num_stages,
    )  # fmt: skip
    return out
