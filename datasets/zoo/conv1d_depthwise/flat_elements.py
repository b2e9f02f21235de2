"""A flat sweep over all outputs: places by division, the taps left to the caches."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.conv1d_depthwise.problem import SHAPES, TAPS, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "BLOCK": [128, 256, 512, 1024, 2048],
    "TAPS_FIRST": [False, True],
    "POLICY": ["", "evict_last"],
    "num_warps": [1, 2, 4, 8],
}


@triton.jit
def flat_kernel(
    x_ptr, weight_ptr, out_ptr, T, C, total,
    TAPS: tl.constexpr, TAPS_FIRST: tl.constexpr, POLICY: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < total
    channel = at % C
    time = at // C % T
    acc = tl.zeros((BLOCK,), dtype=tl.float32)
    for step in tl.static_range(TAPS):
        back = TAPS - 1 - step if TAPS_FIRST else step
        w = tl.load(weight_ptr + channel * TAPS + TAPS - 1 - back, mask=inside, other=0.0)
        here = inside & (time >= back)
        x = tl.load(x_ptr + at - back * C, mask=here, other=0.0, eviction_policy=POLICY)
        acc += x.to(tl.float32) * w.to(tl.float32)
    acc /= 1.0 + tl.exp(-acc)
    tl.store(out_ptr + at, acc.to(out_ptr.dtype.element_ty), mask=inside)


def valid(params, shape):
    """One to 32 elements a thread."""
    return 1 <= params["BLOCK"] / (32 * params["num_warps"]) <= 32


def kernel(x, weight, *, BLOCK=512, TAPS_FIRST=False, POLICY="", num_warps=4):
    B, T, C = x.shape
    out = torch.empty_like(x)
    total = B * T * C
    flat_kernel[(triton.cdiv(total, BLOCK),)](
        x, weight, out, T, C, total, TAPS, TAPS_FIRST, POLICY, BLOCK, num_warps=num_warps
    )
    return out
