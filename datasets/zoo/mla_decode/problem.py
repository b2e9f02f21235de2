"""Decoding with latent attention: all heads share one cached row a token, most of it the value."""

import torch

KIND = "attention"
SHAPES = [
    {"B": 32, "H": 128, "S": 4096, "LATENT": 512, "ROPE": 64, "dtype": "bfloat16"},
    {"B": 8, "H": 128, "S": 16384, "LATENT": 512, "ROPE": 64, "dtype": "bfloat16"},
    {"B": 64, "H": 16, "S": 2048, "LATENT": 512, "ROPE": 64, "dtype": "float16"},
    {"B": 16, "H": 64, "S": 5003, "LATENT": 256, "ROPE": 32, "dtype": "bfloat16"},
    {"B": 1, "H": 128, "S": 32768, "LATENT": 512, "ROPE": 64, "dtype": "bfloat16"},
    {"B": 100, "H": 32, "S": 1000, "LATENT": 256, "ROPE": 64, "dtype": "float16"},
    {"B": 4, "H": 24, "S": 9001, "LATENT": 512, "ROPE": 64, "dtype": "float16"},
]
TOLERANCE = {"rtol": 2e-2, "atol": 5e-3}


def inputs(B=32, H=128, S=4096, LATENT=512, ROPE=64, dtype=torch.bfloat16, device="cuda"):
    """Queries and the cache; LATENT of the cache's columns are also the values."""
    q = torch.randn(B, H, LATENT + ROPE, dtype=dtype, device=device)
    return q, torch.randn(B, S, LATENT + ROPE, dtype=dtype, device=device), LATENT


def reference(q, cache, latent):
    scores = (q @ cache.transpose(1, 2)).float() * q.shape[2] ** -0.5
    return torch.softmax(scores, dim=2).to(q.dtype) @ cache[:, :, :latent]


def item_bytes(shape):
    """Bytes of an element of the inputs."""
    return 4 if "float32" in str(shape["dtype"]) else 2
