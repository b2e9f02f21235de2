"""TileLang: whole rows in registers, or read twice in pieces."""

import tilelang
import tilelang.language as T

from solkit.datasets.languages.row_softmax.problem import KIND, SHAPES, TOLERANCE, inputs, reference

__all__ = ["KIND", "SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference"]

SPACE = {"block_n": [512, 1024, 4096], "rows": [1, 2], "threads": [128, 256, 512]}


@tilelang.jit(out_idx=[1])
def softmax_whole(M, N, rows, threads, dtype="bfloat16"):
    @T.prim_func
    def main(X: T.Tensor((M, N), dtype), Y: T.Tensor((M, N), dtype)):
        with T.Kernel(M // rows, threads=threads) as row:
            values = T.alloc_fragment((rows, N), "float32")
            largest = T.alloc_fragment((rows,), "float32")
            total = T.alloc_fragment((rows,), "float32")
            T.copy(X[row * rows : (row + 1) * rows, :], values)
            T.reduce_max(values, largest, dim=1)
            for i, j in T.Parallel(rows, N):
                values[i, j] = T.exp(values[i, j] - largest[i])
            T.reduce_sum(values, total, dim=1)
            for i, j in T.Parallel(rows, N):
                values[i, j] = values[i, j] / total[i]
            T.copy(values, Y[row * rows : (row + 1) * rows, :])

    return main


@tilelang.jit(out_idx=[1])
def softmax_online(M, N, rows, block_n, threads, dtype="bfloat16"):
    @T.prim_func
    def main(X: T.Tensor((M, N), dtype), Y: T.Tensor((M, N), dtype)):
        with T.Kernel(M // rows, threads=threads) as row:
            values = T.alloc_fragment((rows, block_n), "float32")
            largest = T.alloc_fragment((rows,), "float32")
            before = T.alloc_fragment((rows,), "float32")
            total = T.alloc_fragment((rows,), "float32")
            part = T.alloc_fragment((rows,), "float32")
            T.fill(largest, -T.infinity("float32"))
            T.clear(total)
            for n in T.serial(N // block_n):
                T.copy(X[row * rows, n * block_n], values)
                T.copy(largest, before)
                T.reduce_max(values, largest, dim=1, clear=False)
                for i, j in T.Parallel(rows, block_n):
                    values[i, j] = T.exp(values[i, j] - largest[i])
                T.reduce_sum(values, part, dim=1)
                for i in T.Parallel(rows):
                    total[i] = total[i] * T.exp(before[i] - largest[i]) + part[i]
            for n in T.serial(N // block_n):
                T.copy(X[row * rows, n * block_n], values)
                for i, j in T.Parallel(rows, block_n):
                    values[i, j] = T.exp(values[i, j] - largest[i]) / total[i]
                T.copy(values, Y[row * rows, n * block_n])

    return main


def kernel(x, *, block_n=4096, rows=1, threads=256):
    M, N = x.shape
    if block_n >= N:
        return softmax_whole(M, N, rows, threads)(x)
    return softmax_online(M, N, rows, block_n, threads)(x)
