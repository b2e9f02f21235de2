"""Prices of European calls and puts after Black and Scholes, an option an element."""

import torch

KIND = "elementwise"
RATE, VOLATILITY = 0.02, 0.3
SHAPES = [
    {"N": 1 << 25, "dtype": "float32"},
    {"N": 1 << 26, "dtype": "float16"},
    {"N": 10000019, "dtype": "bfloat16"},  # a prime
    {"N": 1 << 22, "dtype": "float32"},
    {"N": 3000017, "dtype": "float32"},
    {"N": 1 << 24, "dtype": "bfloat16"},
    {"N": 400000, "dtype": "float16"},
]
TOLERANCE = {"rtol": 1e-2, "atol": 2e-3}  # of prices up to 100


def inputs(N=1 << 25, dtype=torch.float32, device="cuda"):
    """Spot prices, strikes and years left."""
    spot = 5 + 25 * torch.rand(N, device=device)
    strike = 1 + 99 * torch.rand(N, device=device)
    years = 0.25 + 9.75 * torch.rand(N, device=device)
    return spot.to(dtype), strike.to(dtype), years.to(dtype)


def reference(spot, strike, years):
    S, X, T = spot.float(), strike.float(), years.float()
    spread = VOLATILITY * torch.sqrt(T)
    d1 = (torch.log(S / X) + (RATE + 0.5 * VOLATILITY * VOLATILITY) * T) / spread
    below = 0.5 * (1 + torch.erf(d1 * 0.5**0.5))
    below2 = 0.5 * (1 + torch.erf((d1 - spread) * 0.5**0.5))
    discounted = X * torch.exp(-RATE * T)
    call = S * below - discounted * below2
    put = discounted * (1 - below2) - S * (1 - below)
    return call.to(spot.dtype), put.to(spot.dtype)
