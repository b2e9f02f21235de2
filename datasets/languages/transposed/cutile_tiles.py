"""cuTile: a tile a block."""

import cuda.tile as ct
import torch

from solkit.datasets.languages.transposed.problem import KIND, SHAPES, inputs, reference

__all__ = ["KIND", "SHAPES", "SPACE", "inputs", "kernel", "reference"]

SPACE = {"tile_m": [32, 64, 128], "tile_n": [32, 64, 128], "occupancy": [2, 8]}


@ct.kernel
def transpose(x, y, tile_m: ct.Constant[int], tile_n: ct.Constant[int]):
    column, row = ct.bid(0), ct.bid(1)
    tile = ct.load(x, index=(row, column), shape=(tile_m, tile_n))
    ct.store(y, index=(column, row), tile=ct.transpose(tile))


def kernel(x, *, tile_m=64, tile_n=64, occupancy=2):
    M, N = x.shape
    y = torch.empty(N, M, dtype=x.dtype, device=x.device)
    tuned = transpose.replace_hints(occupancy=occupancy)
    ct.launch(
        torch.cuda.current_stream(), (N // tile_n, M // tile_m), tuned, (x, y, tile_m, tile_n)
    )
    return y
