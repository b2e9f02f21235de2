"""Gradients of RMS normalisation, of its input and its weight."""

import torch

EPS = 1e-6
KIND = "norm"
SHAPES = [
    {"M": 256, "N": 2048, "dtype": "bfloat16"},
    {"M": 16384, "N": 320, "dtype": "float16"},
    {"M": 16384, "N": 1024, "dtype": "float32"},
    {"M": 8192, "N": 2048, "dtype": "bfloat16"},
    {"M": 3001, "N": 2999, "dtype": "float32"},
    {"M": 4096, "N": 4096, "dtype": "bfloat16"},
    {"M": 2048, "N": 8192, "dtype": "float16"},
]
TOLERANCE = {"rtol": 1e-2, "atol": 1e-2}


def inputs(M=8192, N=2048, dtype=torch.bfloat16, device="cuda"):
    x, dy = (torch.randn(M, N, dtype=dtype, device=device) for _ in range(2))
    return x, torch.randn(N, dtype=dtype, device=device), dy


def reference(x, weight, dy):
    dy, wide = dy.float(), x.float()
    scale = torch.rsqrt(wide.square().mean(-1, keepdim=True) + EPS)
    unit, weighted = wide * scale, dy * weight.float()
    dx = scale * (weighted - unit * (weighted * unit).mean(-1, keepdim=True))
    return dx.to(x.dtype), (dy * unit).sum(0)
