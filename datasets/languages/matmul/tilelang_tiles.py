"""TileLang: a pipelined product of tiles in shared memory."""

import tilelang
import tilelang.language as T

from solkit.datasets.languages.matmul.problem import KIND, SHAPES, TOLERANCE, inputs, reference

__all__ = ["KIND", "SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "block_m": [64, 128, 256],
    "block_n": [64, 128, 256],
    "block_k": [32, 64],
    "stages": [2, 3],
    "threads": [128, 256],
}


@tilelang.jit(out_idx=[2])
def matmul(M, N, K, block_m, block_n, block_k, stages, threads, dtype="bfloat16"):
    @T.prim_func
    def main(A: T.Tensor((M, K), dtype), B: T.Tensor((K, N), dtype), C: T.Tensor((M, N), dtype)):
        with T.Kernel(T.ceildiv(N, block_n), T.ceildiv(M, block_m), threads=threads) as (bx, by):
            a = T.alloc_shared((block_m, block_k), dtype)
            b = T.alloc_shared((block_k, block_n), dtype)
            total = T.alloc_fragment((block_m, block_n), "float32")
            T.clear(total)
            for k in T.Pipelined(T.ceildiv(K, block_k), num_stages=stages):
                T.copy(A[by * block_m, k * block_k], a)
                T.copy(B[k * block_k, bx * block_n], b)
                T.gemm(a, b, total)
            T.copy(total, C[by * block_m, bx * block_n])

    return main


def valid(params, shape):
    """A tile of results that fits in the registers of its threads."""
    area = params["block_m"] * params["block_n"]
    return 4096 < area <= 32768 and area / params["threads"] <= 128


def kernel(a, b, *, block_m=128, block_n=128, block_k=64, stages=3, threads=128):
    M, K, N = *a.shape, b.shape[1]
    return matmul(M, N, K, block_m, block_n, block_k, stages, threads)(a, b)
