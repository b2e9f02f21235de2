"""The volatility at which Black and Scholes' call price is the market's: eight Newton steps."""

import torch

KIND = "elementwise"
RATE, STEPS = 0.02, 8
SHAPES = [
    {"N": 1 << 24, "dtype": "float32"},
    {"N": 1 << 22, "dtype": "float32"},
    {"N": 5000011, "dtype": "float32"},
    {"N": 1 << 25, "dtype": "float16"},
    {"N": 1000003, "dtype": "float32"},
    {"N": 1 << 23, "dtype": "float16"},
    {"N": 12345678, "dtype": "float32"},
]
TOLERANCE = {"rtol": 1e-2, "atol": 5e-3}


def inputs(N=1 << 24, dtype=torch.float32, device="cuda"):
    """Strikes over the spot price, years left, and prices over the spot price."""
    strike = (0.85 + 0.3 * torch.rand(N, device=device)).to(dtype)
    years = (0.5 + 1.5 * torch.rand(N, device=device)).to(dtype)
    volatility = 0.25 + 0.3 * torch.rand(N, device=device)
    return strike, years, value(strike.float(), years.float(), volatility)[0]


def value(strike, years, volatility):
    """The price over the spot price, and how it changes with the volatility."""
    spread = volatility * torch.sqrt(years)
    d1 = (RATE * years - torch.log(strike)) / spread + 0.5 * spread
    below = 0.5 + 0.5 * torch.erf(d1 * 0.5**0.5)
    below2 = 0.5 + 0.5 * torch.erf((d1 - spread) * 0.5**0.5)
    slope = 0.3989422804 * torch.sqrt(years) * torch.exp(-0.5 * d1 * d1)
    return below - strike * torch.exp(-RATE * years) * below2, slope


def reference(strike, years, price):
    strike, years = strike.float(), years.float()
    volatility = torch.full_like(price, 0.4)
    for _ in range(STEPS):
        model, slope = value(strike, years, volatility)
        volatility = (volatility - (model - price) / slope).clamp(0.05, 2.0)
    return volatility
