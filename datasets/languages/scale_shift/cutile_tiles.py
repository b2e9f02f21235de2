"""cuTile: a tile of rows and columns a block."""

import cuda.tile as ct
import torch

from solkit.datasets.languages.scale_shift.problem import KIND, SHAPES, TOLERANCE, inputs, reference

__all__ = ["KIND", "SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference"]

SPACE = {"tile_m": [1, 4, 16], "tile_n": [256, 512, 1024, 2048]}


@ct.kernel
def scale_shift(x, y, tile_m: ct.Constant[int], tile_n: ct.Constant[int]):
    row, column = ct.bid(0), ct.bid(1)
    values = ct.load(x, index=(row, column), shape=(tile_m, tile_n)).astype(ct.float32)
    ct.store(y, index=(row, column), tile=(values * 1.5 + 0.25).astype(y.dtype))


def kernel(x, *, tile_m=4, tile_n=512):
    y = torch.empty_like(x)
    grid = (ct.cdiv(x.shape[0], tile_m), ct.cdiv(x.shape[1], tile_n))
    ct.launch(torch.cuda.current_stream(), grid, scale_shift, (x, y, tile_m, tile_n))
    return y
