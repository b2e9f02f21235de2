"""One step of diffusion in a box: each point and its six neighbours, zeros outside."""

import torch
import torch.nn.functional as F

KIND = "convolution"
SHAPES = [
    {"X": 256, "Y": 256, "Z": 256, "dtype": "float32"},
    {"X": 64, "Y": 512, "Z": 512, "dtype": "float32"},
    {"X": 127, "Y": 129, "Z": 131, "dtype": "float32"},
    {"X": 256, "Y": 256, "Z": 512, "dtype": "float16"},
    {"X": 1000, "Y": 100, "Z": 60, "dtype": "bfloat16"},
    {"X": 64, "Y": 64, "Z": 64, "dtype": "float32"},
    {"X": 33, "Y": 401, "Z": 517, "dtype": "float16"},
]
TOLERANCE = {"rtol": 1e-2, "atol": 1e-2}


def inputs(X=256, Y=256, Z=256, dtype=torch.float32, device="cuda"):
    return (torch.randn(X, Y, Z, dtype=dtype, device=device),)


def reference(u):
    p = F.pad(u.float(), (1, 1, 1, 1, 1, 1))
    around = p[:-2, 1:-1, 1:-1] + p[2:, 1:-1, 1:-1] + p[1:-1, :-2, 1:-1]
    around = around + p[1:-1, 2:, 1:-1] + p[1:-1, 1:-1, :-2] + p[1:-1, 1:-1, 2:]
    return (0.4 * u.float() + 0.1 * around).to(u.dtype)
