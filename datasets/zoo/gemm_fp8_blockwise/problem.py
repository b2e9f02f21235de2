"""Product x @ w.T in fp8 with a scale for each 1 x 128 of x and each 128 x 128 of w."""

import torch

KIND = "matmul"
BLOCK = 128  # columns, and rows of w, that share a scale
SHAPES = [
    {"M": 4096, "N": 7168, "K": 4096, "dtype": "bfloat16"},
    {"M": 8192, "N": 4096, "K": 2048, "dtype": "bfloat16"},
    {"M": 128, "N": 24576, "K": 1536, "dtype": "bfloat16"},
    {"M": 2048, "N": 4096, "K": 7168, "dtype": "float16"},
    {"M": 1000, "N": 3000, "K": 2048, "dtype": "float16"},
    {"M": 3001, "N": 2304, "K": 1152, "dtype": "bfloat16"},
    {"M": 64, "N": 7168, "K": 16384, "dtype": "float16"},
]
# Outputs are of order one; Hopper's tensor cores keep some 14 bits of a sum of fp8 products.
TOLERANCE = {"rtol": 3e-2, "atol": 1e-1}


def inputs(M=4096, N=7168, K=4096, dtype=torch.bfloat16, device="cuda"):
    """Both matrices in fp8, their scales in fp32, and the result's dtype; K in whole blocks."""
    x = torch.randn(M, K, device=device).to(torch.float8_e4m3fn)
    w = torch.randn(N, K, device=device).to(torch.float8_e4m3fn)
    x_scale = (0.5 + torch.rand(M, K // BLOCK, device=device)) * K**-0.5
    w_scale = 0.5 + torch.rand((N + BLOCK - 1) // BLOCK, K // BLOCK, device=device)
    return x, w, x_scale, w_scale, dtype


def reference(x, w, x_scale, w_scale, dtype):
    left = x.float() * x_scale.repeat_interleave(BLOCK, dim=1)
    grid = w_scale.repeat_interleave(BLOCK, dim=1).repeat_interleave(BLOCK, dim=0)
    return (left @ (w.float() * grid[: w.shape[0]]).T).to(dtype)
