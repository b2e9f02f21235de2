"""Product x @ w.T of int8 matrices, summed exactly and scaled by row and by column."""

import torch

KIND = "matmul"
SHAPES = [
    {"M": 2048, "N": 4096, "K": 4096, "dtype": "float16"},
    {"M": 4096, "N": 1024, "K": 1024, "dtype": "bfloat16"},
    {"M": 512, "N": 512, "K": 512, "dtype": "float16"},
    {"M": 32, "N": 8192, "K": 4096, "dtype": "float16"},
    {"M": 256, "N": 1024, "K": 8192, "dtype": "bfloat16"},
    {"M": 1000, "N": 1336, "K": 2000, "dtype": "float16"},
    {"M": 199, "N": 311, "K": 577, "dtype": "bfloat16"},  # primes
]
TOLERANCE = {"rtol": 1e-2, "atol": 1e-2}  # outputs of order one


def reference(x, w, x_scale, w_scale, dtype):
    product = x.float() @ w.float().T  # good to 2**-24, if not exact
    return (product * x_scale[:, None] * w_scale[None, :]).to(dtype)


def inputs(M=2048, N=4096, K=4096, dtype=torch.float16, device="cuda"):
    """Both matrices in int8, their scales in fp32, and the result's dtype."""
    x = torch.randint(-128, 128, (M, K), dtype=torch.int8, device=device)
    w = torch.randint(-128, 128, (N, K), dtype=torch.int8, device=device)
    unit = K**-0.5 / 5000  # outputs of order one
    x_scale = (0.5 + torch.rand(M, device=device)) * unit
    return x, w, x_scale, 0.5 + torch.rand(N, device=device), dtype
