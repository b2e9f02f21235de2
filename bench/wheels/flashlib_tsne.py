"""Flashlib's gradient of t-SNE: every pair of points, an accumulator of two numbers a point."""

import torch
import triton
from flashlib.primitives.tsne.triton.grad import _tsne_grad_kernel

SHAPES = [{"N": 4096}]
TOLERANCE = {"rtol": 2e-2, "atol": 1e-4}
SPACE = {
    "BLOCK_I": [16, 32, 64, 128, 256],
    "BLOCK_J": [16, 32, 64, 128, 256],
    "num_warps": [1, 2, 4, 8],
    "num_stages": [1, 2, 3],
}
WITHOUT_TUNER = _tsne_grad_kernel.fn


def valid(params, shape):
    return 2 <= params["BLOCK_I"] * params["BLOCK_J"] / (32 * params["num_warps"]) <= 128


def inputs(N=4096, device="cuda"):
    y = torch.randn(N, 2, device=device)
    p = torch.rand(N, N, device=device)
    distances = (y[:, None] - y[None]).square().sum(-1)
    return y, (p + p.T) / p.sum() / 2, (1 / (1 + distances)).sum().reshape(1)


def reference(y, p, q_sum):
    between = y[:, None] - y[None]
    q = 1 / (1 + between.square().sum(-1))
    return 4 * (((p - q / q_sum) * q)[..., None] * between).sum(1)


def kernel(y, p, q_sum, *, BLOCK_I=64, BLOCK_J=64, num_warps=4, num_stages=2):
    N = len(y)
    grad = torch.empty_like(y)
    WITHOUT_TUNER[(triton.cdiv(N, BLOCK_I),)](
        y, p, q_sum, grad, N, y.stride(0), p.stride(0), p.stride(1), grad.stride(0),
        N_KEY=triton.next_power_of_2(N), N_LOOP=triton.cdiv(N, BLOCK_J) * BLOCK_J,
        BLOCK_I=BLOCK_I, BLOCK_J=BLOCK_J, num_warps=num_warps, num_stages=num_stages,
    )  # fmt: skip
    return grad
