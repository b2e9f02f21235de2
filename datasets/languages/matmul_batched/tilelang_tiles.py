"""TileLang: a pipelined product of tiles, a batch a layer of the grid."""

import tilelang
import tilelang.language as T

from solkit.datasets.languages.matmul_batched.problem import (
    KIND,
    SHAPES,
    TOLERANCE,
    inputs,
    reference,
)

__all__ = ["KIND", "SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "block_m": [64, 128],
    "block_n": [64, 128, 256],
    "block_k": [32, 64],
    "stages": [1, 2, 3],
    "threads": [128, 256],
}


@tilelang.jit(out_idx=[2])
def matmul_batched(B, M, N, K, block_m, block_n, block_k, stages, threads, dtype="bfloat16"):
    @T.prim_func
    def main(
        A: T.Tensor((B, M, K), dtype), R: T.Tensor((B, K, N), dtype), C: T.Tensor((B, M, N), dtype)
    ):
        with T.Kernel(N // block_n, M // block_m, B, threads=threads) as (bx, by, bz):
            a = T.alloc_shared((block_m, block_k), dtype)
            b = T.alloc_shared((block_k, block_n), dtype)
            total = T.alloc_fragment((block_m, block_n), "float32")
            T.clear(total)
            for k in T.Pipelined(K // block_k, num_stages=stages):
                T.copy(A[bz, by * block_m, k * block_k], a)
                T.copy(R[bz, k * block_k, bx * block_n], b)
                T.gemm(a, b, total)
            T.copy(total, C[bz, by * block_m, bx * block_n])

    return main


def valid(params, shape):
    """A tile of results that fits in the registers of its threads."""
    return params["block_m"] * params["block_n"] / params["threads"] <= 128


def kernel(a, b, *, block_m=128, block_n=128, block_k=64, stages=2, threads=256):
    B, M, K, N = *a.shape, b.shape[2]
    return matmul_batched(B, M, N, K, block_m, block_n, block_k, stages, threads)(a, b)
