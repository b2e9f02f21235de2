"""TileLang: a pipelined product whose result passes through SiLU."""

import tilelang
import tilelang.language as T

from solkit.datasets.languages.matmul_silu.problem import KIND, SHAPES, TOLERANCE, inputs, reference

__all__ = ["KIND", "SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "block_m": [64, 128, 256],
    "block_n": [64, 128, 256],
    "block_k": [32, 64],
    "stages": [2, 3],
    "threads": [128, 256],
}


@tilelang.jit(out_idx=[3])
def linear_silu(M, N, K, block_m, block_n, block_k, stages, threads, dtype="bfloat16"):
    @T.prim_func
    def main(
        X: T.Tensor((M, K), dtype),
        W: T.Tensor((N, K), dtype),
        bias: T.Tensor((N,), dtype),
        Y: T.Tensor((M, N), dtype),
    ):
        with T.Kernel(T.ceildiv(N, block_n), T.ceildiv(M, block_m), threads=threads) as (bx, by):
            x = T.alloc_shared((block_m, block_k), dtype)
            w = T.alloc_shared((block_n, block_k), dtype)
            total = T.alloc_fragment((block_m, block_n), "float32")
            T.clear(total)
            for k in T.Pipelined(T.ceildiv(K, block_k), num_stages=stages):
                T.copy(X[by * block_m, k * block_k], x)
                T.copy(W[bx * block_n, k * block_k], w)
                T.gemm(x, w, total, transpose_B=True)
            for i, j in T.Parallel(block_m, block_n):
                total[i, j] += T.cast(bias[bx * block_n + j], "float32")
            for i, j in T.Parallel(block_m, block_n):
                total[i, j] = total[i, j] / (1.0 + T.exp(-total[i, j]))
            T.copy(total, Y[by * block_m, bx * block_n])

    return main


def valid(params, shape):
    """A tile of results that fits in the registers of its threads."""
    return params["block_m"] * params["block_n"] / params["threads"] <= 128


def kernel(x, weight, bias, *, block_m=128, block_n=128, block_k=64, stages=3, threads=256):
    M, K, N = *x.shape, weight.shape[0]
    return linear_silu(M, N, K, block_m, block_n, block_k, stages, threads)(x, weight, bias)
