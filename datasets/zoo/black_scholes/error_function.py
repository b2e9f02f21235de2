"""A block of options a program; the normal distribution from erf."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.black_scholes.problem import (
    RATE,
    SHAPES,
    TOLERANCE,
    VOLATILITY,
    inputs,
    reference,
)

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]


SPACE = {
    "BLOCK": [128, 256, 512, 1024, 2048, 4096],
    "PUT_BY_PARITY": [False, True],
    "num_warps": [1, 2, 4, 8],
}


@triton.jit
def prices_kernel(
    spot_ptr, strike_ptr, years_ptr, call_ptr, put_ptr, N,
    RATE: tl.constexpr, VOLATILITY: tl.constexpr, PUT_BY_PARITY: tl.constexpr,
    BLOCK: tl.constexpr,
):  # fmt: skip
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < N
    spot = tl.load(spot_ptr + at, mask=inside, other=1.0).to(tl.float32)
    strike = tl.load(strike_ptr + at, mask=inside, other=1.0).to(tl.float32)
    years = tl.load(years_ptr + at, mask=inside, other=1.0).to(tl.float32)
    spread = VOLATILITY * tl.sqrt(years)
    drift = (RATE + 0.5 * VOLATILITY * VOLATILITY) * years
    d1 = (tl.log(spot / strike) + drift) / spread
    below = 0.5 + 0.5 * tl.erf(d1 * 0.7071067811865476)
    below2 = 0.5 + 0.5 * tl.erf((d1 - spread) * 0.7071067811865476)
    discounted = strike * tl.exp(-RATE * years)
    call = spot * below - discounted * below2
    if PUT_BY_PARITY:
        put = call + discounted - spot
    else:
        put = discounted * (1 - below2) - spot * (1 - below)
    tl.store(call_ptr + at, call.to(call_ptr.dtype.element_ty), mask=inside)
    tl.store(put_ptr + at, put.to(put_ptr.dtype.element_ty), mask=inside)


def valid(params, shape):
    """One to 16 options a thread."""
    return 1 <= params["BLOCK"] / (32 * params["num_warps"]) <= 16


def kernel(spot, strike, years, *, BLOCK=1024, PUT_BY_PARITY=False, num_warps=4):
    call, put = torch.empty_like(spot), torch.empty_like(spot)
    N = spot.numel()
    prices_kernel[(triton.cdiv(N, BLOCK),)](
        spot, strike, years, call, put, N, RATE, VOLATILITY, PUT_BY_PARITY, BLOCK,
        num_warps=num_warps,
    )  # fmt: skip
    return call, put
