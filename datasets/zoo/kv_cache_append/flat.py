"""One flat axis over all new elements: each finds its token by division and its slot by a load."""

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
    "BLOCK": [64, 128, 256, 512, 1024, 2048, 4096, 8192],
    "LAUNCHES": [1, 2],
    "WRITE": ["", ".cs", ".wt"],
    "num_warps": [1, 2, 4, 8],
}


@triton.jit
def copy_kernel(
    new_ptr, cache_ptr, new_2_ptr, cache_2_ptr, slots_ptr, count, WIDTH,
    BLOCK: tl.constexpr, TWO: tl.constexpr, WRITE: tl.constexpr,
):  # fmt: skip
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = i < count
    slot = tl.load(slots_ptr + i // WIDTH, mask=inside, other=0)
    target = slot * WIDTH + i % WIDTH
    new = tl.load(new_ptr + i, mask=inside)
    tl.store(cache_ptr + target, new, mask=inside, cache_modifier=WRITE)
    if TWO:
        new = tl.load(new_2_ptr + i, mask=inside)
        tl.store(cache_2_ptr + target, new, mask=inside, cache_modifier=WRITE)


def valid(params, shape):
    """One to 64 elements a thread."""
    return 1 <= params["BLOCK"] / (32 * params["num_warps"]) <= 64


def kernel(k, v, k_cache, v_cache, slots, *, BLOCK=1024, LAUNCHES=1, WRITE="", num_warps=4):
    count, width = k.numel(), k.shape[1] * k.shape[2]
    grid = (triton.cdiv(count, BLOCK),)
    pairs = ((k, k_cache, v, v_cache), (v, v_cache, k, k_cache))
    for pair in pairs[:LAUNCHES]:
        copy_kernel[grid](
            *pair, slots, count, width, BLOCK, LAUNCHES == 1, WRITE, num_warps=num_warps
        )
