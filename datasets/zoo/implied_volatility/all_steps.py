"""A block of options a program; what does not depend on the volatility is worked out once."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.implied_volatility.problem import (
    RATE,
    SHAPES,
    STEPS,
    TOLERANCE,
    inputs,
    reference,
)

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]


SPACE = {
    "BLOCK": [128, 256, 512, 1024],
    "UNROLL": [1, 2, 8],
    "num_warps": [1, 2, 4, 8],
}


@triton.jit
def newton_kernel(
    strike_ptr, years_ptr, price_ptr, out_ptr, N,
    RATE: tl.constexpr, STEPS: tl.constexpr, BLOCK: tl.constexpr, UNROLL: tl.constexpr,
):  # fmt: skip
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    strike = tl.load(strike_ptr + at, mask=at < N, other=1.0).to(tl.float32)
    years = tl.load(years_ptr + at, mask=at < N, other=1.0).to(tl.float32)
    price = tl.load(price_ptr + at, mask=at < N, other=0.1)
    root = tl.sqrt(years)
    rise = RATE * years - tl.log(strike)
    discounted = strike * tl.exp(-RATE * years)
    volatility = tl.full((BLOCK,), 0.4, dtype=tl.float32)
    for _ in tl.range(0, STEPS, loop_unroll_factor=UNROLL):
        spread = volatility * root
        d1 = rise / spread + 0.5 * spread
        below = 0.5 + 0.5 * tl.erf(d1 * 0.7071067811865476)
        below2 = 0.5 + 0.5 * tl.erf((d1 - spread) * 0.7071067811865476)
        slope = 0.3989422804 * root * tl.exp(-0.5 * d1 * d1)
        volatility -= (below - discounted * below2 - price) / slope
        volatility = tl.minimum(tl.maximum(volatility, 0.05), 2.0)
    tl.store(out_ptr + at, volatility, mask=at < N)


def valid(params, shape):
    """One to eight options a thread."""
    return 1 <= params["BLOCK"] / (32 * params["num_warps"]) <= 8


def kernel(strike, years, price, *, BLOCK=512, UNROLL=1, num_warps=4):
    out = torch.empty_like(price)
    N = price.numel()
    newton_kernel[(triton.cdiv(N, BLOCK),)](
        strike, years, price, out, N, RATE, STEPS, BLOCK, UNROLL, num_warps=num_warps
    )
    return out
