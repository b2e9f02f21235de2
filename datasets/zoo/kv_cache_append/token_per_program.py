"""A token a program: its slot is read once, its keys and values copied in blocks."""

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
    "BLOCK": [32, 64, 128, 256, 512, 1024, 2048, 4096],
    "BOTH": [False, True],
    "EVICT": ["", "evict_first"],
    "LONG": [False, True],
    "num_warps": [1, 2, 4, 8],
}


@triton.jit
def append_kernel(
    k_ptr, v_ptr, k_cache_ptr, v_cache_ptr, slots_ptr, WIDTH,
    BLOCK: tl.constexpr, BOTH: tl.constexpr, EVICT: tl.constexpr, LONG: tl.constexpr,
):  # fmt: skip
    token = tl.program_id(0)
    slot = tl.load(slots_ptr + token)
    if LONG:  # offsets for caches of more than 2^31 elements
        token, slot = token.to(tl.int64), slot.to(tl.int64)
    for start in range(0, WIDTH, BLOCK):
        i = start + tl.arange(0, BLOCK)
        if BOTH or tl.program_id(1) == 0:
            k = tl.load(k_ptr + token * WIDTH + i, mask=i < WIDTH, eviction_policy=EVICT)
            tl.store(k_cache_ptr + slot * WIDTH + i, k, mask=i < WIDTH)
        if BOTH or tl.program_id(1) == 1:
            v = tl.load(v_ptr + token * WIDTH + i, mask=i < WIDTH, eviction_policy=EVICT)
            tl.store(v_cache_ptr + slot * WIDTH + i, v, mask=i < WIDTH)


def valid(params, shape):
    """One to 64 elements a thread, and blocks less than twice a token's width."""
    block, width = params["BLOCK"], shape["KV"] * shape["D"]
    return 1 <= block / (32 * params["num_warps"]) <= 64 and block < 2 * width


def kernel(
    k, v, k_cache, v_cache, slots, *, BLOCK=128, BOTH=True, EVICT="", LONG=False, num_warps=1
):
    T, KV, D = k.shape
    append_kernel[(T, 1 if BOTH else 2)](
        k, v, k_cache, v_cache, slots, KV * D, BLOCK, BOTH, EVICT, LONG, num_warps=num_warps
    )
