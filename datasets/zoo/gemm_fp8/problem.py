"""Product x @ w.T of fp8 (e4m3) matrices with a scale for each row of either, as W8A8 layers do."""

import torch

KIND = "matmul"
SHAPES = [
    {"M": 4096, "N": 4096, "K": 4096, "dtype": "bfloat16"},
    {"M": 1024, "N": 7168, "K": 2048, "dtype": "bfloat16"},
    {"M": 512, "N": 512, "K": 512, "dtype": "float16"},
    {"M": 16, "N": 8192, "K": 4096, "dtype": "bfloat16"},
    {"M": 128, "N": 1536, "K": 7168, "dtype": "float16"},
    {"M": 1000, "N": 1336, "K": 2000, "dtype": "bfloat16"},
    {"M": 199, "N": 311, "K": 577, "dtype": "float16"},  # primes
]
# Outputs are of order one. Hopper's tensor cores keep some 14 bits of a sum of fp8 products and
# cut the rest off at every step, which over K = 7168 comes to a few percent of the largest sum.
TOLERANCE = {"rtol": 3e-2, "atol": 1e-1}


def reference(x, w, x_scale, w_scale, dtype):
    product = x.float() @ w.float().T
    return (product * x_scale[:, None] * w_scale[None, :]).to(dtype)


def inputs(M=1024, N=4096, K=4096, dtype=torch.bfloat16, device="cuda"):
    """Both matrices in fp8, their scales in fp32, and the result's dtype."""
    x = torch.randn(M, K, device=device).to(torch.float8_e4m3fn)
    w = torch.randn(N, K, device=device).to(torch.float8_e4m3fn)
    x_scale = (0.5 + torch.rand(M, device=device)) * K**-0.5
    return x, w, x_scale, 0.5 + torch.rand(N, device=device), dtype
