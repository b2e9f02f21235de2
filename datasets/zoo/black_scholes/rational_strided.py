"""Persistent programs; the normal distribution from a polynomial, all powers of base two."""

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
    "BLOCK": [256, 512, 1024, 2048],
    "PROGRAMS": [264, 528, 1056, 2112],
    "num_warps": [2, 4, 8],
    "num_stages": [1, 3],
}


@triton.jit
def normal_below(x):
    """Abramowitz and Stegun, 26.2.17: within 7.5e-8."""
    t = 1.0 / (1.0 + 0.2316419 * tl.abs(x))
    tail = t * (1.781477937 + t * (-1.821255978 + t * 1.330274429))
    tail = t * (0.319381530 + t * (-0.356563782 + tail))
    tail *= 0.3989422804014327 * tl.exp2(-0.7213475204444817 * x * x)
    return tl.where(x > 0, 1.0 - tail, tail)


@triton.jit
def strided_kernel(
    spot_ptr, strike_ptr, years_ptr, call_ptr, put_ptr, N,
    RATE: tl.constexpr, VOLATILITY: tl.constexpr, BLOCK: tl.constexpr, STAGES: tl.constexpr,
):  # fmt: skip
    step = tl.num_programs(0) * BLOCK
    for start in tl.range(tl.program_id(0) * BLOCK, N, step, num_stages=STAGES):
        at = start + tl.arange(0, BLOCK)
        inside = at < N
        spot = tl.load(spot_ptr + at, mask=inside, other=1.0).to(tl.float32)
        strike = tl.load(strike_ptr + at, mask=inside, other=1.0).to(tl.float32)
        years = tl.load(years_ptr + at, mask=inside, other=1.0).to(tl.float32)
        inverse = tl.rsqrt(years) / VOLATILITY
        spread = years * VOLATILITY * VOLATILITY * inverse
        rise = (tl.log2(spot) - tl.log2(strike)) * 0.6931471805599453
        d1 = (rise + (RATE + 0.5 * VOLATILITY * VOLATILITY) * years) * inverse
        below, below2 = normal_below(d1), normal_below(d1 - spread)
        discounted = strike * tl.exp2(-1.4426950408889634 * RATE * years)
        call = spot * below - discounted * below2
        put = call + discounted - spot
        tl.store(call_ptr + at, call.to(call_ptr.dtype.element_ty), mask=inside)
        tl.store(put_ptr + at, put.to(put_ptr.dtype.element_ty), mask=inside)


def valid(params, shape):
    """Two to 16 options a thread."""
    return 2 <= params["BLOCK"] / (32 * params["num_warps"]) <= 16


def kernel(
    spot, strike, years, *, BLOCK=512, PROGRAMS=1056, num_warps=4, num_stages=1
):  # fmt: skip
    call, put = torch.empty_like(spot), torch.empty_like(spot)
    N = spot.numel()
    strided_kernel[(min(PROGRAMS, triton.cdiv(N, BLOCK)),)](
        spot, strike, years, call, put, N, RATE, VOLATILITY, BLOCK, num_stages, num_warps=num_warps
    )
    return call, put
