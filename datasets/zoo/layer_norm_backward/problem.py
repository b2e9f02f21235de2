"""Gradients of layer normalisation, of its input, weight and bias, given the rows' moments."""

import torch

EPS = 1e-5
KIND = "norm"
SHAPES = [
    {"M": 512, "N": 512, "dtype": "float32"},
    {"M": 16384, "N": 257, "dtype": "float32"},
    {"M": 16384, "N": 768, "dtype": "bfloat16"},
    {"M": 4096, "N": 1024, "dtype": "float16"},
    {"M": 2003, "N": 3001, "dtype": "bfloat16"},
    {"M": 8192, "N": 4096, "dtype": "bfloat16"},
    {"M": 2048, "N": 8192, "dtype": "float16"},
]
TOLERANCE = {"rtol": 1e-2, "atol": 1e-2}


def inputs(M=8192, N=4096, dtype=torch.bfloat16, device="cuda"):
    x, dy = (torch.randn(M, N, dtype=dtype, device=device) for _ in range(2))
    variance, mean = torch.var_mean(x.float(), dim=-1, correction=0)
    return x, torch.randn(N, dtype=dtype, device=device), dy, mean, torch.rsqrt(variance + EPS)


def reference(x, weight, dy, mean, rstd):
    dy, rstd = dy.float(), rstd[:, None]
    unit = (x.float() - mean[:, None]) * rstd
    weighted = dy * weight.float()
    along = (weighted * unit).mean(-1, keepdim=True)
    dx = rstd * (weighted - unit * along - weighted.mean(-1, keepdim=True))
    return dx.to(x.dtype), (dy * unit).sum(0), dy.sum(0)
