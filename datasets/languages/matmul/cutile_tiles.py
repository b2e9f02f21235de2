"""cuTile: a tile of results a block, columns of tiles in turn."""

import cuda.tile as ct
import torch

from solkit.datasets.languages.matmul.problem import KIND, SHAPES, TOLERANCE, inputs, reference

__all__ = ["KIND", "SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "tile_m": [64, 128, 256],
    "tile_n": [64, 128, 256],
    "tile_k": [32, 64],
    "occupancy": [1, 2],
}


@ct.kernel
def matmul(a, b, c, tile_m: ct.Constant[int], tile_n: ct.Constant[int], tile_k: ct.Constant[int]):
    down = ct.cdiv(a.shape[0], tile_m)
    row, column = ct.bid(0) % down, ct.bid(0) // down
    total = ct.full((tile_m, tile_n), 0, dtype=ct.float32)
    for k in range(ct.num_tiles(a, axis=1, shape=(tile_m, tile_k))):
        rows = ct.load(a, index=(row, k), shape=(tile_m, tile_k))
        columns = ct.load(b, index=(k, column), shape=(tile_k, tile_n))
        total = ct.mma(rows, columns, total)
    ct.store(c, index=(row, column), tile=total.astype(c.dtype))


def valid(params, shape):
    """A tile of results that fits in the registers of two warp groups."""
    return 4096 < params["tile_m"] * params["tile_n"] <= 32768


def kernel(a, b, *, tile_m=128, tile_n=128, tile_k=64, occupancy=1):
    M, N = a.shape[0], b.shape[1]
    c = torch.empty(M, N, dtype=a.dtype, device=a.device)
    tuned = matmul.replace_hints(occupancy=occupancy)
    grid = (ct.cdiv(M, tile_m) * ct.cdiv(N, tile_n),)
    ct.launch(torch.cuda.current_stream(), grid, tuned, (a, b, c, tile_m, tile_n, tile_k))
    return c
