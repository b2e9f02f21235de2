"""Persistent programs go over tiles of tokens by elements, both caches in one pass."""

import triton
import triton.language as tl

from solkit.datasets.zoo.kv_cache_append.problem import (
    OUTPUTS,
    SHAPES,
    TOLERANCE,
    inputs,
    reference,
)

__all__ = ["OUTPUTS", "SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]
SPACE = {
    "TOKENS": [1, 2, 4, 8, 16],
    "WIDTH": [32, 64, 128, 256, 512],
    "PROGRAMS": [132, 264, 528, 1056],
    "num_warps": [1, 2, 4, 8],
}


@triton.jit
def tiles_kernel(
    k_ptr, v_ptr, k_cache_ptr, v_cache_ptr, slots_ptr, T, ROW,
    TOKENS: tl.constexpr, WIDTH: tl.constexpr,
):  # fmt: skip
    blocks = tl.cdiv(ROW, WIDTH)
    for tile in range(tl.program_id(0), tl.cdiv(T, TOKENS) * blocks, tl.num_programs(0)):
        t = tile // blocks * TOKENS + tl.arange(0, TOKENS)
        e = (tile % blocks * WIDTH + tl.arange(0, WIDTH))[None, :]
        slot = tl.load(slots_ptr + t, mask=t < T, other=0)[:, None]
        mask = (t[:, None] < T) & (e < ROW)
        source, target = t[:, None] * ROW + e, slot * ROW + e
        keys = tl.load(k_ptr + source, mask=mask)
        values = tl.load(v_ptr + source, mask=mask)
        tl.store(k_cache_ptr + target, keys, mask=mask)
        tl.store(v_cache_ptr + target, values, mask=mask)


def valid(params, shape):
    """One to 32 elements a thread, and a tile for every program beyond 132."""
    tile, row = params["TOKENS"] * params["WIDTH"], shape["KV"] * shape["D"]
    tiles = -(-shape["T"] // params["TOKENS"]) * -(-row // params["WIDTH"])
    fits = 1 <= tile / (32 * params["num_warps"]) <= 32 and params["WIDTH"] < 2 * row
    return fits and params["PROGRAMS"] <= max(132, tiles)


def kernel(k, v, k_cache, v_cache, slots, *, TOKENS=2, WIDTH=128, PROGRAMS=132, num_warps=2):
    T, KV, D = k.shape
    tiles_kernel[(PROGRAMS,)](
        k, v, k_cache, v_cache, slots, T, KV * D, TOKENS, WIDTH, num_warps=num_warps
    )
