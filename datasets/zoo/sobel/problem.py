"""Edges in images: the sum of both gradients' sizes, an eighth of it; the border is repeated."""

import torch
import torch.nn.functional as F

KIND = "convolution"
SHAPES = [
    {"B": 8, "H": 2160, "W": 3840, "dtype": "uint8"},
    {"B": 4, "H": 4096, "W": 4096, "dtype": "float32"},
    {"B": 1, "H": 16384, "W": 12288, "dtype": "uint8"},
    {"B": 32, "H": 719, "W": 1279, "dtype": "float16"},
    {"B": 3, "H": 6000, "W": 4000, "dtype": "bfloat16"},
    {"B": 200, "H": 224, "W": 224, "dtype": "float32"},
    {"B": 7, "H": 3001, "W": 2003, "dtype": "uint8"},  # primes
]
TOLERANCE = {"rtol": 1e-2, "atol": 1e-2}


def inputs(B=8, H=2160, W=3840, dtype=torch.uint8, device="cuda"):
    x = torch.rand(B, H, W, device=device)
    return ((x * 256).to(dtype) if dtype == torch.uint8 else x.to(dtype),)


def reference(x):
    p = F.pad(x.float()[:, None], (1, 1, 1, 1), mode="replicate")[:, 0]
    across = p[:, :, 2:] - p[:, :, :-2]
    down = p[:, 2:] - p[:, :-2]
    gx = across[:, :-2] + 2 * across[:, 1:-1] + across[:, 2:]
    gy = down[:, :, :-2] + 2 * down[:, :, 1:-1] + down[:, :, 2:]
    return ((gx.abs() + gy.abs()) * 0.125).to(x.dtype)


def itemsize(shape):
    """Bytes of a pixel."""
    name = str(shape["dtype"]).removeprefix("torch.")
    return {"uint8": 1, "float32": 4}.get(name, 2)
