"""TileLang: rows in registers, through shared memory or not."""

import tilelang
import tilelang.language as T

from solkit.datasets.languages.rms_scaled.problem import KIND, SHAPES, TOLERANCE, inputs, reference

__all__ = ["KIND", "SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference"]

SPACE = {"rows": [1, 2, 4, 8], "threads": [128, 256], "shared": [False, True]}


@tilelang.jit(out_idx=[2])
def rms(M, N, rows, threads, shared, dtype="bfloat16"):
    @T.prim_func
    def main(X: T.Tensor((M, N), dtype), W: T.Tensor((N,), dtype), Y: T.Tensor((M, N), dtype)):
        with T.Kernel(M // rows, threads=threads) as row:
            values = T.alloc_fragment((rows, N), "float32")
            squares = T.alloc_fragment((rows, N), "float32")
            total = T.alloc_fragment((rows,), "float32")
            if shared:
                staged = T.alloc_shared((rows, N), dtype)
                T.copy(X[row * rows : (row + 1) * rows, :], staged)
                T.copy(staged, values)
            else:
                T.copy(X[row * rows : (row + 1) * rows, :], values)
            for i, j in T.Parallel(rows, N):
                squares[i, j] = values[i, j] * values[i, j]
            T.reduce_sum(squares, total, dim=1)
            for i in T.Parallel(rows):
                total[i] = T.rsqrt(total[i] / N + 1e-6)
            for i, j in T.Parallel(rows, N):
                values[i, j] = values[i, j] * total[i] * T.cast(W[j], "float32")
            T.copy(values, Y[row * rows : (row + 1) * rows, :])

    return main


def kernel(x, weight, *, rows=1, threads=128, shared=False):
    return rms(*x.shape, rows, threads, shared)(x, weight)
