"""Flashlib's squared distances of a matrix's rows from each other."""

import torch
import triton
from flashlib.kernels.distance.triton.pairwise import _pairwise_l2_kernel

from solkit.datasets.libraries.packages import check_installed

check_installed("flashlib", "0.4.0")
__all__ = ["KIND", "SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]
KIND = "reduction"
SHAPES = [{"case": 0}, {"case": 1}, {"case": 2}]
SIZES = [[4096, 128, torch.bfloat16], [8192, 64, torch.float16], [3001, 200, torch.float32]]
TOLERANCE = {"rtol": 2e-2, "atol": 5e-2}
SPACE = {
    "BLOCK_I": [32, 64, 128],
    "BLOCK_J": [32, 64, 128],
    "BLOCK_D": [16, 32, 64],
    "num_warps": [4, 8],
    "num_stages": [1, 2],
}
WITHOUT_TUNER = _pairwise_l2_kernel.fn


def valid(params, shape):
    return params["BLOCK_I"] * params["BLOCK_J"] / (32 * params["num_warps"]) >= 4


def inputs(case=0, device="cuda"):
    n, d, dtype = SIZES[case]
    X = (torch.randn(n, d, device=device) * d**-0.5).to(dtype)
    return X, X.float().square().sum(dim=1)


def reference(X, x_sq):
    return (x_sq[:, None] + x_sq[None] - 2 * (X.float() @ X.float().T)).clamp(min=0)


def kernel(X, x_sq, *, BLOCK_I=64, BLOCK_J=64, BLOCK_D=32, num_warps=4, num_stages=2):
    N, D = X.shape
    out = torch.empty(N, N, device=X.device, dtype=torch.float32)
    bucket = triton.next_power_of_2(D)
    WITHOUT_TUNER[(triton.cdiv(N, BLOCK_I), triton.cdiv(N, BLOCK_J))](
        X, x_sq, out, x_sq, N, D, X.stride(0), X.stride(1), out.stride(0), out.stride(1),
        N_KEY=triton.next_power_of_2(N), D_KEY=bucket, FUSE_OP=0, BLOCK_I=BLOCK_I,
        BLOCK_J=BLOCK_J, BLOCK_D=BLOCK_D, num_warps=num_warps, num_stages=num_stages,
    )  # fmt: skip
    return out
