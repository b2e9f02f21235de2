"""One AdamW step in place: the parameter and both moments are read, updated and written."""

import torch

KIND = "update"
SHAPES = [
    {"N": 131072},
    {"N": 1000003},
    {"N": 4194304, "dtype": "bfloat16"},
    {"N": 16777216},
    {"N": 12582917, "dtype": "float16"},
    {"N": 25165824, "dtype": "bfloat16"},
    {"N": 6291456},
]
TOLERANCE = {"rtol": 1e-2, "atol": 1e-5}
OUTPUTS = ("param", "first", "second")
LR, BETA1, BETA2, EPSILON, DECAY, STEP = 1e-3, 0.9, 0.99, 1e-8, 0.01, 10


def reference(param, grad, first, second):
    g = grad.float()
    first.mul_(BETA1).add_(g, alpha=1 - BETA1)
    second.mul_(BETA2).add_(g * g, alpha=1 - BETA2)
    root = (second / (1 - BETA2**STEP)).sqrt() + EPSILON
    step = first / (1 - BETA1**STEP) / root
    param.copy_(param.float() * (1 - LR * DECAY) - LR * step)


def inputs(N=16777216, dtype=torch.float32, device="cuda"):
    param = torch.randn(N, dtype=dtype, device=device)
    grad = torch.randn(N, dtype=dtype, device=device)
    first = torch.randn(N, dtype=torch.float32, device=device)
    return param, grad, first, torch.rand(N, dtype=torch.float32, device=device) + 0.01
