"""TileLang: a block of queries a block, online softmax."""

import tilelang
import tilelang.language as T

from solkit.datasets.languages.attention.problem import KIND, SHAPES, TOLERANCE, inputs, reference

__all__ = ["KIND", "SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "block_m": [64, 128],
    "block_n": [64, 128],
    "stages": [1, 2],
    "threads": [128, 256],
}
FAST = {tilelang.PassConfigKey.TL_ENABLE_FAST_MATH: True}


@tilelang.jit(out_idx=[3], pass_configs=FAST)
def attention(B, H, S, D, block_m, block_n, stages, threads, dtype="bfloat16"):
    scale = (1.0 / D) ** 0.5 * 1.44269504
    shape = (B, H, S, D)

    @T.prim_func
    def main(
        Q: T.Tensor(shape, dtype),
        K: T.Tensor(shape, dtype),
        V: T.Tensor(shape, dtype),
        O: T.Tensor(shape, dtype),
    ):
        with T.Kernel(S // block_m, H, B, threads=threads) as (bx, by, bz):
            queries = T.alloc_shared((block_m, D), dtype)
            keys = T.alloc_shared((block_n, D), dtype)
            values = T.alloc_shared((block_n, D), dtype)
            scores = T.alloc_fragment((block_m, block_n), "float32")
            weights = T.alloc_fragment((block_m, block_n), dtype)
            result = T.alloc_fragment((block_m, D), "float32")
            largest = T.alloc_fragment((block_m,), "float32")
            before = T.alloc_fragment((block_m,), "float32")
            shrunk = T.alloc_fragment((block_m,), "float32")
            part = T.alloc_fragment((block_m,), "float32")
            total = T.alloc_fragment((block_m,), "float32")
            T.copy(Q[bz, by, bx * block_m : (bx + 1) * block_m, :], queries)
            T.fill(result, 0)
            T.fill(total, 0)
            T.fill(largest, -T.infinity("float32"))
            for k in T.Pipelined(S // block_n, num_stages=stages):
                T.copy(K[bz, by, k * block_n : (k + 1) * block_n, :], keys)
                T.clear(scores)
                rows = T.GemmWarpPolicy.FullRow
                T.gemm(queries, keys, scores, transpose_B=True, policy=rows)
                T.copy(largest, before)
                T.reduce_max(scores, largest, dim=1, clear=False)
                for i in T.Parallel(block_m):
                    shrunk[i] = T.exp2(before[i] * scale - largest[i] * scale)
                for i, j in T.Parallel(block_m, block_n):
                    scores[i, j] = T.exp2(scores[i, j] * scale - largest[i] * scale)
                T.reduce_sum(scores, part, dim=1)
                for i in T.Parallel(block_m):
                    total[i] = total[i] * shrunk[i] + part[i]
                T.copy(scores, weights)
                for i, j in T.Parallel(block_m, D):
                    result[i, j] *= shrunk[i]
                T.copy(V[bz, by, k * block_n : (k + 1) * block_n, :], values)
                T.gemm(weights, values, result, policy=rows)
            for i, j in T.Parallel(block_m, D):
                result[i, j] /= total[i]
            T.copy(result, O[bz, by, bx * block_m : (bx + 1) * block_m, :])

    return main


def valid(params, shape):
    """A warp group has 64 rows."""
    return params["block_m"] >= params["threads"] / 2


def kernel(q, k, v, *, block_m=128, block_n=128, stages=1, threads=128):
    return attention(*q.shape, block_m, block_n, stages, threads)(q, k, v)
