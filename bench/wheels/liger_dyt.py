"""Liger's dynamic tanh: a hyperbolic tangent of scaled rows, weighted and shifted."""

import torch
import triton
from liger_kernel.ops.dyt import _dyt_fwd_kernel

SHAPES = [{"M": 4096, "N": 4096}]
TOLERANCE = {"rtol": 2e-2, "atol": 2e-2}
SPACE = {
    "BLOCK_N": [128, 256, 512, 1024, 2048, 4096],
    "num_warps": [1, 2, 4, 8, 16],
    "num_stages": [1, 2],
}
WITHOUT_TUNER = _dyt_fwd_kernel.fn


def inputs(M=4096, N=4096, device="cuda"):
    shapes = (M, N), (1,), (N,), (N,)
    return tuple(torch.randn(shape, dtype=torch.bfloat16, device=device) for shape in shapes)


def reference(x, alpha, gamma, beta):
    return (torch.tanh(alpha.float() * x.float()) * gamma.float() + beta.float()).to(x.dtype)


def kernel(x, alpha, gamma, beta, *, BLOCK_N=1024, num_warps=4, num_stages=2):
    M, N = x.shape
    y = torch.empty_like(x)
    WITHOUT_TUNER[(triton.cdiv(N, BLOCK_N), M)](
        x, y, alpha, gamma, beta, HAVE_BETA=True, N=N, BLOCK_N=BLOCK_N, num_warps=num_warps,
        num_stages=num_stages,
    )  # fmt: skip
    return y
