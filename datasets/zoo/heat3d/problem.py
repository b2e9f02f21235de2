"""A step of heat flow in a block whose conductivity varies: a face lets through the mean's part."""

import torch
import torch.nn.functional as F

KIND = "convolution"
SHAPES = [
    {"X": 256, "Y": 256, "Z": 256, "dtype": "float32"},
    {"X": 512, "Y": 256, "Z": 512, "dtype": "float16"},
    {"X": 301, "Y": 199, "Z": 257, "dtype": "float32"},
    {"X": 64, "Y": 1024, "Z": 1024, "dtype": "bfloat16"},
    {"X": 4000, "Y": 100, "Z": 90, "dtype": "float32"},
    {"X": 128, "Y": 128, "Z": 1000, "dtype": "float32"},
    {"X": 211, "Y": 193, "Z": 307, "dtype": "float16"},  # primes
]
TOLERANCE = {"rtol": 1e-2, "atol": 1e-2}


def inputs(X=256, Y=256, Z=256, dtype=torch.float32, device="cuda"):
    u = torch.randn(X, Y, Z, dtype=dtype, device=device)
    return u, torch.rand(X, Y, Z, dtype=dtype, device=device) + 0.5


def reference(u, c):
    """Nothing flows through the outer faces."""
    now, conducts = u.float(), c.float()
    flow = torch.zeros_like(now)
    for axis in range(3):
        step = now.diff(dim=axis)
        size = now.shape[axis] - 1
        mean = conducts.narrow(axis, 0, size) + conducts.narrow(axis, 1, size)
        through = mean * step
        before, after = [0] * 6, [0] * 6
        before[2 * (2 - axis) + 1] = after[2 * (2 - axis)] = 1
        flow += F.pad(through, before) - F.pad(through, after)
    return (now + 0.05 * flow).to(u.dtype)
