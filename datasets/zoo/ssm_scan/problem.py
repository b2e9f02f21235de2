"""Selective state-space scan: h = exp(delta A) h + delta u b, y = h c, with N states a channel."""

import torch

KIND = "scan"
SHAPES = [
    {"B": 4, "L": 1024, "C": 1024, "N": 16, "dtype": "bfloat16"},
    {"B": 2, "L": 1500, "C": 512, "N": 16, "dtype": "float32"},
    {"B": 8, "L": 512, "C": 768, "N": 8, "dtype": "float16"},
    {"B": 1, "L": 777, "C": 1000, "N": 16, "dtype": "float32"},
    {"B": 16, "L": 128, "C": 2048, "N": 16, "dtype": "bfloat16"},
    {"B": 3, "L": 333, "C": 257, "N": 4, "dtype": "bfloat16"},
    {"B": 1, "L": 1024, "C": 4096, "N": 16, "dtype": "float16"},
]
TOLERANCE = {"rtol": 1e-2, "atol": 1e-2}


def inputs(B=4, L=1024, C=1024, N=16, dtype=torch.bfloat16, device="cuda"):
    u = torch.randn(B, L, C, dtype=dtype, device=device)
    delta = torch.rand(B, L, C, dtype=dtype, device=device) * 0.2 + 0.01
    a = -torch.rand(C, N, device=device) * N - 0.1
    b, c = (torch.randn(B, L, N, dtype=dtype, device=device) for _ in range(2))
    return u, delta, a, b, c


def reference(u, delta, a, b, c):
    h = torch.zeros(u.shape[0], *a.shape, dtype=torch.float32, device=u.device)
    driven = delta.float() * u.float()
    outs = []
    for t in range(u.shape[1]):
        decay = (delta[:, t, :, None].float() * a).exp()
        h = decay * h + driven[:, t, :, None] * b[:, t, None, :]
        outs.append((h * c[:, t, None, :]).sum(-1))
    return torch.stack(outs, 1).to(u.dtype)
