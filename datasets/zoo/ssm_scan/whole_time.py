"""All of time in one tile: for each state in turn, a scan over time of a few channels."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.ssm_scan.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]
SPACE = {
    "BLOCK_C": [1, 2, 4, 8, 16],
    "UNROLL": [1, 2, 4],
    "TIME_LAST": [False, True],
    "EVICT": ["", "evict_last"],
    "num_warps": [1, 2, 4, 8, 16],
}


@triton.jit
def compose(a, x, b, y):
    return a * b, x * b + y


@triton.jit
def whole_time_kernel(
    u_ptr, delta_ptr, a_ptr, b_ptr, c_ptr, y_ptr, L, C,
    N: tl.constexpr, TIME: tl.constexpr, BLOCK_C: tl.constexpr, UNROLL: tl.constexpr,
    TIME_LAST: tl.constexpr, EVICT: tl.constexpr,
):  # fmt: skip
    batch = tl.program_id(1) * L
    AXIS: tl.constexpr = 1 if TIME_LAST else 0  # of time in a tile
    t = tl.expand_dims(tl.arange(0, TIME), 1 - AXIS)
    channel = tl.program_id(0) * BLOCK_C + tl.expand_dims(tl.arange(0, BLOCK_C), AXIS)
    inside = (t < L) & (channel < C)
    at = (batch + t) * C + channel
    delta = tl.load(delta_ptr + at, mask=inside, other=0.0).to(tl.float32)
    driven = delta * tl.load(u_ptr + at, mask=inside, other=0.0).to(tl.float32)
    y = tl.zeros(delta.shape, dtype=tl.float32)
    for n in tl.range(0, N, loop_unroll_factor=UNROLL):
        a = tl.load(a_ptr + channel * N + n, mask=channel < C, other=0.0)
        b = tl.load(b_ptr + (batch + t) * N + n, mask=t < L, other=0.0, eviction_policy=EVICT)
        c = tl.load(c_ptr + (batch + t) * N + n, mask=t < L, other=0.0, eviction_policy=EVICT)
        steps = (tl.exp(delta * a), driven * b.to(tl.float32))
        _, h = tl.associative_scan(steps, AXIS, compose)
        y += h * c.to(tl.float32)
    tl.store(y_ptr + at, y.to(y_ptr.dtype.element_ty), mask=inside)


def valid(params, shape):
    """One to 32 times a thread."""
    tile = triton.next_power_of_2(shape["L"]) * params["BLOCK_C"]
    return 1 <= tile / (32 * params["num_warps"]) <= 32


def kernel(u, delta, a, b, c, *, BLOCK_C=2, UNROLL=1, TIME_LAST=True, EVICT="", num_warps=4):
    B, L, C = u.shape
    y = torch.empty_like(u)
    whole_time_kernel[(triton.cdiv(C, BLOCK_C), B)](
        u, delta, a, b, c, y, L, C, a.shape[1], triton.next_power_of_2(L), BLOCK_C, UNROLL,
        TIME_LAST, EVICT, num_warps=num_warps,
    )  # fmt: skip
    return y
