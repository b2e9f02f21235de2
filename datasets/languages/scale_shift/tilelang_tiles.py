"""TileLang: a tile of rows and columns a block."""

import tilelang
import tilelang.language as T

from solkit.datasets.languages.scale_shift.problem import KIND, SHAPES, TOLERANCE, inputs, reference

__all__ = ["KIND", "SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference"]

SPACE = {"block_m": [1, 4, 16], "block_n": [512, 1024, 2048], "threads": [128, 256]}


@tilelang.jit(out_idx=[1])
def scale_shift(M, N, block_m, block_n, threads, dtype="bfloat16"):
    @T.prim_func
    def main(X: T.Tensor((M, N), dtype), Y: T.Tensor((M, N), dtype)):
        with T.Kernel(T.ceildiv(N, block_n), T.ceildiv(M, block_m), threads=threads) as (bx, by):
            for i, j in T.Parallel(block_m, block_n):
                value = T.cast(X[by * block_m + i, bx * block_n + j], "float32")
                Y[by * block_m + i, bx * block_n + j] = T.cast(value * 1.5 + 0.25, dtype)

    return main


def kernel(x, *, block_m=4, block_n=1024, threads=256):
    return scale_shift(*x.shape, block_m, block_n, threads)(x)
