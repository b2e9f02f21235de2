"""cuTile: a tile of results a block, a batch a layer of the grid."""

import cuda.tile as ct
import torch

from solkit.datasets.languages.matmul_batched.problem import (
    KIND,
    SHAPES,
    TOLERANCE,
    inputs,
    reference,
)

__all__ = ["KIND", "SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "tile_m": [32, 64, 128],
    "tile_n": [64, 128, 256],
    "tile_k": [32, 64],
    "occupancy": [1, 2],
}


@ct.kernel
def matmul_batched(
    a, b, c, tile_m: ct.Constant[int], tile_n: ct.Constant[int], tile_k: ct.Constant[int]
):
    column, row, layer = ct.bid(0), ct.bid(1), ct.bid(2)
    total = ct.full((tile_m, tile_n), 0, dtype=ct.float32)
    for k in range(ct.num_tiles(a, axis=2, shape=(1, tile_m, tile_k))):
        rows = ct.load(a, index=(layer, row, k), shape=(1, tile_m, tile_k))
        columns = ct.load(b, index=(layer, k, column), shape=(1, tile_k, tile_n))
        total = ct.mma(rows.reshape((tile_m, tile_k)), columns.reshape((tile_k, tile_n)), total)
    result = total.astype(c.dtype).reshape((1, tile_m, tile_n))
    ct.store(c, index=(layer, row, column), tile=result)


def valid(params, shape):
    """A tile of results that fits in the registers of two warp groups."""
    return params["tile_m"] * params["tile_n"] <= 32768


def kernel(a, b, *, tile_m=128, tile_n=128, tile_k=64, occupancy=1):
    B, M, N = a.shape[0], a.shape[1], b.shape[2]
    c = torch.empty(B, M, N, dtype=a.dtype, device=a.device)
    tuned = matmul_batched.replace_hints(occupancy=occupancy)
    grid = (ct.cdiv(N, tile_n), ct.cdiv(M, tile_m), B)
    ct.launch(torch.cuda.current_stream(), grid, tuned, (a, b, c, tile_m, tile_n, tile_k))
    return c
