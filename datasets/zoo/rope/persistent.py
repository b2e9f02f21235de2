"""A fixed number of programs strides over tiles of rows (heads of tokens), angles looked up."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.rope.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]
SPACE = {
    "ROWS": [1, 2, 4, 8, 16, 32],
    "PROGRAMS": [132, 264, 528, 1056],
    "num_warps": [2, 4, 8],
    "num_stages": [1, 2, 3],
}


@triton.jit
def strided_kernel(
    x_ptr, cos_ptr, sin_ptr, out_ptr, rows, H,
    HALF: tl.constexpr, ROWS: tl.constexpr, STAGES: tl.constexpr,
):  # fmt: skip
    d = tl.arange(0, HALF)[None, :]
    step = tl.num_programs(0) * ROWS
    for first in tl.range(tl.program_id(0) * ROWS, rows, step, num_stages=STAGES):
        row = first + tl.arange(0, ROWS)[:, None]
        inside = row < rows
        angle = row // H * HALF + d
        c = tl.load(cos_ptr + angle, mask=inside, other=0.0, eviction_policy="evict_last")
        s = tl.load(sin_ptr + angle, mask=inside, other=0.0, eviction_policy="evict_last")
        low_at = row * (2 * HALF) + d
        high_at = low_at + HALF
        low = tl.load(x_ptr + low_at, mask=inside, other=0.0).to(tl.float32)
        high = tl.load(x_ptr + high_at, mask=inside, other=0.0).to(tl.float32)
        tl.store(out_ptr + low_at, low * c - high * s, mask=inside)
        tl.store(out_ptr + high_at, high * c + low * s, mask=inside)


def valid(params, shape):
    """One to 32 pairs a thread, and a tile for every program beyond 132."""
    rows, programs = params["ROWS"], params["PROGRAMS"]
    busy = programs <= max(132, -(-shape["T"] * shape["H"] // rows))
    return busy and 1 / 2 <= rows * shape["D"] / 2 / (32 * params["num_warps"]) <= 32


def kernel(x, cos, sin, *, ROWS=8, PROGRAMS=132, num_warps=2, num_stages=2):
    T, H, D = x.shape
    out = torch.empty_like(x)
    strided_kernel[(PROGRAMS,)](
        x, cos, sin, out, T * H, H, D // 2, ROWS, num_stages, num_warps=num_warps
    )
    return out
