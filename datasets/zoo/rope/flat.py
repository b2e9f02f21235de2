"""One flat axis over all pairs; token, head and pair are found again by division."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.rope.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]
SPACE = {
    "BLOCK": [64, 128, 256, 512, 1024, 2048, 4096],
    "WIDE": [False, True],
    "EVICT": ["", "evict_first"],
    "num_warps": [1, 2, 4, 8, 16],
}


@triton.jit
def flat_kernel(
    x_ptr, cos_ptr, sin_ptr, out_ptr, pairs, H, HALF,
    BLOCK: tl.constexpr, WIDE: tl.constexpr, EVICT: tl.constexpr,
):  # fmt: skip
    pid = tl.program_id(0).to(tl.int64) if WIDE else tl.program_id(0)
    i = pid * BLOCK + tl.arange(0, BLOCK)
    mask = i < pairs
    row, d = i // HALF, i % HALF
    angle = row // H * HALF + d
    low_at = row * 2 * HALF + d
    cos = tl.load(cos_ptr + angle, mask=mask)
    sin = tl.load(sin_ptr + angle, mask=mask)
    low = tl.load(x_ptr + low_at, mask=mask, eviction_policy=EVICT).to(tl.float32)
    high = tl.load(x_ptr + low_at + HALF, mask=mask, eviction_policy=EVICT).to(tl.float32)
    tl.store(out_ptr + low_at, low * cos - high * sin, mask=mask)
    tl.store(out_ptr + low_at + HALF, high * cos + low * sin, mask=mask)


def valid(params, shape):
    """One to 64 pairs a thread."""
    return 1 <= params["BLOCK"] / (32 * params["num_warps"]) <= 64


def kernel(x, cos, sin, *, BLOCK=1024, WIDE=False, EVICT="", num_warps=4):
    T, H, D = x.shape
    out = torch.empty_like(x)
    pairs = T * H * D // 2
    flat_kernel[(triton.cdiv(pairs, BLOCK),)](
        x, cos, sin, out, pairs, H, D // 2, BLOCK, WIDE, EVICT, num_warps=num_warps
    )
    return out
