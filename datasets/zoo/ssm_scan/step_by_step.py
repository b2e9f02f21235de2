"""The recurrence as it stands: some channels a program, their states in registers, step by step."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.ssm_scan.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]
SPACE = {
    "BLOCK_C": [8, 16, 32, 64, 128],
    "UNROLL": [1, 2, 4],
    "BASE_2": [False, True],
    "num_warps": [1, 2, 4],
    "num_stages": [1, 2, 4],
}


@triton.jit
def recurrence_kernel(
    u_ptr, delta_ptr, a_ptr, b_ptr, c_ptr, y_ptr, L, C,
    N: tl.constexpr, BLOCK_C: tl.constexpr, UNROLL: tl.constexpr, BASE_2: tl.constexpr,
    STAGES: tl.constexpr,
):  # fmt: skip
    channel = tl.program_id(0) * BLOCK_C + tl.arange(0, BLOCK_C)
    n = tl.arange(0, N)
    mask = channel < C
    a = tl.load(a_ptr + channel[:, None] * N + n[None, :], mask=mask[:, None], other=0.0)
    if BASE_2:
        a *= 1.4426950408889634
    h = tl.zeros((BLOCK_C, N), dtype=tl.float32)
    start = tl.program_id(1) * L
    for t in tl.range(start, start + L, loop_unroll_factor=UNROLL, num_stages=STAGES):
        u = tl.load(u_ptr + t * C + channel, mask=mask, other=0.0).to(tl.float32)
        delta = tl.load(delta_ptr + t * C + channel, mask=mask, other=0.0).to(tl.float32)
        b = tl.load(b_ptr + t * N + n).to(tl.float32)
        c = tl.load(c_ptr + t * N + n).to(tl.float32)
        power = delta[:, None] * a
        decay = tl.exp2(power) if BASE_2 else tl.exp(power)
        h = decay * h + (delta * u)[:, None] * b[None, :]
        y = tl.sum(h * c[None, :], axis=1)
        tl.store(y_ptr + t * C + channel, y.to(y_ptr.dtype.element_ty), mask=mask)


def valid(params, shape):
    """One to 32 states a thread."""
    return 1 <= params["BLOCK_C"] * shape["N"] / (32 * params["num_warps"]) <= 32


def kernel(u, delta, a, b, c, *, BLOCK_C=32, UNROLL=1, BASE_2=False, num_warps=2, num_stages=2):
    B, L, C = u.shape
    y = torch.empty_like(u)
    recurrence_kernel[(triton.cdiv(C, BLOCK_C), B)](
        u, delta, a, b, c, y, L, C, a.shape[1], BLOCK_C, UNROLL, BASE_2, num_stages,
        num_warps=num_warps,
    )  # fmt: skip
    return y
