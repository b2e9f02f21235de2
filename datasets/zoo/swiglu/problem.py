"""silu(gate) × up over packed rows [gate | up], the middle of a gated feed-forward layer."""

import torch
import torch.nn.functional as F

KIND = "elementwise"
SHAPES = [
    {"M": 512, "N": 1408},
    {"M": 16, "N": 14336},
    {"M": 2047, "N": 2731, "dtype": "float16"},
    {"M": 8192, "N": 5632},
    {"M": 4096, "N": 11008, "dtype": "float16"},
    {"M": 4096, "N": 4096, "dtype": "float32"},
    {"M": 65536, "N": 333},
]
TOLERANCE = {"rtol": 2e-2, "atol": 1e-3}


def reference(packed):
    gate, up = packed.chunk(2, dim=-1)
    return F.silu(gate) * up


def inputs(M=8192, N=5632, dtype=torch.bfloat16, device="cuda"):
    return (torch.randn(M, 2 * N, dtype=dtype, device=device),)
