"""TileLang: a tile a block, through shared memory, padded or not."""

import tilelang
import tilelang.language as T

from solkit.datasets.languages.transposed.problem import KIND, SHAPES, inputs, reference

__all__ = ["KIND", "SHAPES", "SPACE", "inputs", "kernel", "reference"]

SPACE = {
    "block_m": [32, 64],
    "block_n": [32, 64, 128],
    "padding": [0, 1],
    "threads": [128, 256],
}


@tilelang.jit(out_idx=[1])
def transpose(M, N, block_m, block_n, padding, threads, dtype="float32"):
    @T.prim_func
    def main(X: T.Tensor((M, N), dtype), Y: T.Tensor((N, M), dtype)):
        with T.Kernel(N // block_n, M // block_m, threads=threads) as (bx, by):
            tile = T.alloc_shared((block_m, block_n + padding), dtype)
            for i, j in T.Parallel(block_m, block_n):
                tile[i, j] = X[by * block_m + i, bx * block_n + j]
            for j, i in T.Parallel(block_n, block_m):
                Y[bx * block_n + j, by * block_m + i] = tile[i, j]

    return main


def kernel(x, *, block_m=64, block_n=64, padding=1, threads=256):
    return transpose(*x.shape, block_m, block_n, padding, threads)(x)
