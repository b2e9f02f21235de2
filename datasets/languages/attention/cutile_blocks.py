"""cuTile: a tile of queries a block, online softmax."""

import cuda.tile as ct
import torch

from solkit.datasets.languages.attention.problem import KIND, SHAPES, TOLERANCE, inputs, reference

__all__ = ["KIND", "SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference"]

SPACE = {"tile_m": [64, 128], "tile_n": [32, 64, 128], "occupancy": [1, 2]}


@ct.kernel
def attention(
    q,
    k,
    v,
    o,
    scale: float,
    heads: ct.Constant[int],
    tile_m: ct.Constant[int],
    tile_n: ct.Constant[int],
    D: ct.Constant[int],
):
    row, batch, head = ct.bid(0), ct.bid(1) // heads, ct.bid(1) % heads
    queries = ct.load(q, index=(batch, head, row, 0), shape=(1, 1, tile_m, D))
    queries = queries.reshape((tile_m, D))
    largest = ct.full((tile_m, 1), -1e30, dtype=ct.float32)
    total = ct.full((tile_m, 1), 0.0, dtype=ct.float32)
    result = ct.full((tile_m, D), 0.0, dtype=ct.float32)
    for j in range(ct.num_tiles(k, axis=2, shape=(1, 1, tile_n, D))):
        keys = ct.load(k, index=(batch, head, j, 0), shape=(1, 1, tile_n, D)).reshape((tile_n, D))
        none = ct.full((tile_m, tile_n), 0.0, dtype=ct.float32)
        scores = ct.mma(queries, ct.transpose(keys), none) * scale
        after = ct.maximum(largest, ct.max(scores, axis=1, keepdims=True))
        weights = ct.exp2(scores - after)
        shrunk = ct.exp2(largest - after)
        total = total * shrunk + ct.sum(weights, axis=1, keepdims=True)
        values = ct.load(v, index=(batch, head, j, 0), shape=(1, 1, tile_n, D))
        values = values.reshape((tile_n, D))
        result = ct.mma(weights.astype(v.dtype), values, result * shrunk)
        largest = after
    normalised = (result / total).astype(o.dtype).reshape((1, 1, tile_m, D))
    ct.store(o, index=(batch, head, row, 0), tile=normalised)


def kernel(q, k, v, *, tile_m=128, tile_n=64, occupancy=1):
    B, H, S, D = q.shape
    o = torch.empty_like(q)
    scale = D**-0.5 * 1.4426950408889634
    tuned = attention.replace_hints(occupancy=occupancy)
    grid = (ct.cdiv(S, tile_m), B * H)
    sizes = (H, tile_m, tile_n, D)
    ct.launch(torch.cuda.current_stream(), grid, tuned, (q, k, v, o, scale, *sizes))
    return o
