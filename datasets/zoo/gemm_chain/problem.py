"""A small network of one hidden layer, relu(x @ up) @ down: two products in a row."""

import torch

KIND = "matmul"
SHAPES = [
    {"M": 65536, "D": 128, "H": 512, "dtype": "bfloat16"},
    {"M": 32768, "D": 256, "H": 1024, "dtype": "float16"},
    {"M": 200000, "D": 64, "H": 256, "dtype": "bfloat16"},
    {"M": 50021, "D": 128, "H": 1000, "dtype": "float16"},
    {"M": 16384, "D": 256, "H": 4096, "dtype": "bfloat16"},
    {"M": 30011, "D": 64, "H": 333, "dtype": "float32"},
    {"M": 8192, "D": 128, "H": 8192, "dtype": "float16"},
]
TOLERANCE = {"rtol": 2e-2, "atol": 2e-2}  # outputs of order one


def inputs(M=65536, D=128, H=512, dtype=torch.bfloat16, device="cuda"):
    x = torch.randn(M, D, dtype=dtype, device=device)
    up = torch.randn(D, H, dtype=dtype, device=device) * D**-0.5
    return x, up, torch.randn(H, D, dtype=dtype, device=device) * H**-0.5


def reference(x, up, down):
    return torch.relu(x @ up) @ down


def itemsize(shape):
    """Bytes of an input's element."""
    return 4 if "float32" in str(shape["dtype"]) else 2
