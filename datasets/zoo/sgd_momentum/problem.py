"""One step of SGD with weight decay and Nesterov momentum, to a new parameter and a new buffer."""

import torch

KIND = "update"
SHAPES = [
    {"N": 16777216},
    {"N": 524288, "dtype": "bfloat16"},
    {"N": 2000003},
    {"N": 33554432, "dtype": "bfloat16"},
    {"N": 10485760, "dtype": "float16"},
    {"N": 6000011, "dtype": "float16"},
]
TOLERANCE = {"rtol": 1e-2, "atol": 1e-3}
LR, MOMENTUM, DECAY = 0.1, 0.9, 1e-3


def reference(param, grad, buffer):
    g = grad.float() + DECAY * param.float()
    buffer = MOMENTUM * buffer + g
    return (param.float() - LR * (g + MOMENTUM * buffer)).to(param.dtype), buffer


def inputs(N=16777216, dtype=torch.float32, device="cuda"):
    param = torch.randn(N, dtype=dtype, device=device)
    grad = torch.randn(N, dtype=dtype, device=device)
    return param, grad, torch.randn(N, dtype=torch.float32, device=device)
