"""A block goes on until all its options have settled, looked up after each step."""

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
    "BLOCK": [32, 64, 128, 256, 512],
    "PROGRAMS": [528, 2112, 8448],
    "num_warps": [1, 2, 4],
}


@triton.jit
def settled_kernel(
    strike_ptr, years_ptr, price_ptr, out_ptr, N,
    RATE: tl.constexpr, STEPS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    for start in range(tl.program_id(0) * BLOCK, N, tl.num_programs(0) * BLOCK):
        at = start + tl.arange(0, BLOCK)
        strike = tl.load(strike_ptr + at, mask=at < N, other=1.0).to(tl.float32)
        years = tl.load(years_ptr + at, mask=at < N, other=1.0).to(tl.float32)
        price = tl.load(price_ptr + at, mask=at < N, other=0.1)
        root = tl.sqrt(years)
        rise = RATE * years - tl.log(strike)
        discounted = strike * tl.exp(-RATE * years)
        volatility = tl.full((BLOCK,), 0.4, dtype=tl.float32)
        step = 0
        change = 1.0
        while (step < STEPS) & (change > 1e-4):
            spread = volatility * root
            d1 = rise / spread + 0.5 * spread
            below = 0.5 + 0.5 * tl.erf(d1 * 0.7071067811865476)
            below2 = 0.5 + 0.5 * tl.erf((d1 - spread) * 0.7071067811865476)
            slope = 0.3989422804 * root * tl.exp(-0.5 * d1 * d1)
            new = volatility - (below - discounted * below2 - price) / slope
            new = tl.minimum(tl.maximum(new, 0.05), 2.0)
            change = tl.max(tl.abs(new - volatility), axis=0)
            volatility = new
            step += 1
        tl.store(out_ptr + at, volatility, mask=at < N)


def valid(params, shape):
    """One to four options a thread."""
    return 1 <= params["BLOCK"] / (32 * params["num_warps"]) <= 4


def kernel(strike, years, price, *, BLOCK=128, PROGRAMS=8448, num_warps=4):
    out = torch.empty_like(price)
    N = price.numel()
    settled_kernel[(min(PROGRAMS, triton.cdiv(N, BLOCK)),)](
        strike, years, price, out, N, RATE, STEPS, BLOCK, num_warps=num_warps
    )
    return out
