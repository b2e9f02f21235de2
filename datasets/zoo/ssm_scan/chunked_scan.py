"""Chunks of time by channels by states, each scanned at once; its last state goes to the next."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.ssm_scan.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]
SPACE = {
    "BLOCK_T": [4, 8, 16, 32, 64, 128],
    "BLOCK_C": [1, 2, 4, 8, 16, 32],
    "num_warps": [1, 2, 4, 8],
    "num_stages": [1, 2],
}


@triton.jit
def then(decay_1, h_1, decay_2, h_2):
    """One step of the recurrence after another, as a single step."""
    return decay_1 * decay_2, decay_2 * h_1 + h_2


@triton.jit
def chunks_kernel(
    u_ptr, delta_ptr, a_ptr, b_ptr, c_ptr, y_ptr, L, C,
    N: tl.constexpr, BLOCK_T: tl.constexpr, BLOCK_C: tl.constexpr,
):  # fmt: skip
    channel = tl.program_id(0) * BLOCK_C + tl.arange(0, BLOCK_C)
    n = tl.arange(0, N)
    base = tl.program_id(1) * L
    a = tl.load(a_ptr + channel[:, None] * N + n, mask=channel[:, None] < C, other=0.0)
    carried = tl.zeros((BLOCK_C, N), dtype=tl.float32)
    for start in range(0, L, BLOCK_T):
        t = start + tl.arange(0, BLOCK_T)
        inside = (t[:, None] < L) & (channel[None, :] < C)
        at = (base + t)[:, None] * C + channel[None, :]
        at_n = (base + t)[:, None] * N + n[None, :]
        # Beyond L delta is zero: the state stays as it is.
        delta = tl.load(delta_ptr + at, mask=inside, other=0.0).to(tl.float32)
        u = tl.load(u_ptr + at, mask=inside, other=0.0).to(tl.float32)
        b = tl.load(b_ptr + at_n, mask=t[:, None] < L, other=0.0).to(tl.float32)
        c = tl.load(c_ptr + at_n, mask=t[:, None] < L, other=0.0).to(tl.float32)
        decay = tl.exp(delta[:, :, None] * a[None, :, :])
        drive = (delta * u)[:, :, None] * b[:, None, :]
        decay, h = tl.associative_scan((decay, drive), 0, then)
        h += decay * carried[None, :, :]
        y = tl.sum(h * c[:, None, :], axis=2)
        tl.store(y_ptr + at, y.to(y_ptr.dtype.element_ty), mask=inside)
        last = (tl.arange(0, BLOCK_T) == BLOCK_T - 1)[:, None, None]
        carried = tl.sum(tl.where(last, h, 0.0), axis=0)


def valid(params, shape):
    """One to 64 states a thread."""
    states = params["BLOCK_T"] * params["BLOCK_C"] * shape["N"]
    return 1 <= states / (32 * params["num_warps"]) <= 64


def kernel(u, delta, a, b, c, *, BLOCK_T=16, BLOCK_C=8, num_warps=4, num_stages=2):
    B, L, C = u.shape
    y = torch.empty_like(u)
    chunks_kernel[(triton.cdiv(C, BLOCK_C), B)](
        u, delta, a, b, c, y, L, C, a.shape[1], BLOCK_T, BLOCK_C,
        num_warps=num_warps, num_stages=num_stages,
    )  # fmt: skip
    return y
