"""cuTile: a tile of results a block, through SiLU before it is stored."""

import cuda.tile as ct
import torch

from solkit.datasets.languages.matmul_silu.problem import KIND, SHAPES, TOLERANCE, inputs, reference

__all__ = ["KIND", "SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "tile_m": [64, 128, 256],
    "tile_n": [64, 128, 256],
    "tile_k": [32, 64, 128],
    "occupancy": [1, 2],
}


@ct.kernel
def linear_silu(
    x,
    weight,
    bias,
    y,
    tile_m: ct.Constant[int],
    tile_n: ct.Constant[int],
    tile_k: ct.Constant[int],
):
    column, row = ct.bid(0), ct.bid(1)
    total = ct.full((tile_m, tile_n), 0, dtype=ct.float32)
    for k in range(ct.num_tiles(x, axis=1, shape=(tile_m, tile_k))):
        rows = ct.load(x, index=(row, k), shape=(tile_m, tile_k))
        columns = ct.load(weight, index=(column, k), shape=(tile_n, tile_k))
        total = ct.mma(rows, ct.transpose(columns), total)
    shifted = total + ct.load(bias, index=(column,), shape=(tile_n,)).astype(ct.float32)[None, :]
    result = shifted / (1.0 + ct.exp(-shifted))
    ct.store(y, index=(row, column), tile=result.astype(y.dtype))


def valid(params, shape):
    """A tile of results that fits in the registers of two warp groups."""
    return 4096 < params["tile_m"] * params["tile_n"] <= 32768


def kernel(x, weight, bias, *, tile_m=128, tile_n=128, tile_k=64, occupancy=1):
    M, N = x.shape[0], weight.shape[0]
    y = torch.empty(M, N, dtype=x.dtype, device=x.device)
    tuned = linear_silu.replace_hints(occupancy=occupancy)
    grid = (ct.cdiv(N, tile_n), ct.cdiv(M, tile_m))
    sizes = (tile_m, tile_n, tile_k)
    ct.launch(torch.cuda.current_stream(), grid, tuned, (x, weight, bias, y, *sizes))
    return y
