"""Bytes of C interleaved channels looked up in a table for each; SKEW makes low ones frequent."""

import torch

KIND = "indexing"
SHAPES = [
    {"N": 50000000, "C": 3, "SKEW": 1.0, "dtype": "uint8"},
    {"N": 16777216, "C": 4, "SKEW": 4.0, "dtype": "uint8"},
    {"N": 20000003, "C": 3, "SKEW": 2.0, "dtype": "float16"},  # prime
    {"N": 100000000, "C": 1, "SKEW": 8.0, "dtype": "uint8"},
    {"N": 8294400, "C": 3, "SKEW": 1.0, "dtype": "float32"},
    {"N": 33554432, "C": 4, "SKEW": 1.0, "dtype": "float16"},
    {"N": 12000017, "C": 2, "SKEW": 4.0, "dtype": "float32"},
]
TOLERANCE = {"rtol": 0.0, "atol": 0.0}


def inputs(N=50000000, C=3, SKEW=1.0, dtype=torch.uint8, device="cuda"):
    """N pixels of C bytes, and for each channel 256 results, of the result's type."""
    pixels = (torch.rand(N, C, device=device).pow_(SKEW) * 256).clamp_(max=255).to(torch.uint8)
    tables = torch.rand(C, 256, device=device).sort(dim=1).values * 255
    return pixels, tables.to(dtype)


def reference(pixels, tables):
    channel = torch.arange(pixels.shape[1], dtype=torch.int32, device=pixels.device)
    return tables.flatten()[pixels.to(torch.int32) + 256 * channel]


def itemsize(shape):
    """Bytes of a result."""
    name = str(shape["dtype"]).removeprefix("torch.")
    return {"uint8": 1, "float32": 4}.get(name, 2)
