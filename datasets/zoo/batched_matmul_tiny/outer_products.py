"""A tile of results in registers, to which outer products are added, or one dot."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.batched_matmul_tiny.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "MATRICES": [1, 2, 4, 8, 16],
    "DOT": [False, True],
    "num_warps": [1, 2, 4, 8],
}


@triton.jit
def multiply_kernel(
    x_ptr, y_ptr, out_ptr, count, N, MATRICES: tl.constexpr, SIDE: tl.constexpr, DOT: tl.constexpr
):
    pair = tl.program_id(0) * MATRICES + tl.arange(0, MATRICES)
    start = pair.to(tl.int64) * N * N
    i = tl.arange(0, SIDE)
    real = (pair[:, None] < count) & (i[None, :] < N)
    inside = real[:, :, None] & (i[None, None, :] < N)
    at = start[:, None, None] + i[None, :, None] * N + i[None, None, :]
    if DOT:
        x = tl.load(x_ptr + at, mask=inside, other=0.0)
        y = tl.load(y_ptr + at, mask=inside, other=0.0)
        out = tl.dot(x, y)
    else:
        out = tl.zeros((MATRICES, SIDE, SIDE), dtype=tl.float32)
        for k in range(N):
            x = tl.load(x_ptr + start[:, None] + i[None, :] * N + k, mask=real, other=0.0)
            y = tl.load(y_ptr + start[:, None] + k * N + i[None, :], mask=real, other=0.0)
            out += x[:, :, None].to(tl.float32) * y[:, None, :].to(tl.float32)
    tl.store(out_ptr + at, out.to(out_ptr.dtype.element_ty), mask=inside)


def valid(params, shape):
    """Two to 32 elements a thread; sides of 16 or more for a dot."""
    side = max(triton.next_power_of_2(shape["N"]), 16 if params["DOT"] else 1)
    return 2 <= params["MATRICES"] * side * side / (32 * params["num_warps"]) <= 32


def kernel(x, y, *, MATRICES=4, DOT=False, num_warps=4):
    count, N = x.shape[:2]
    out = torch.empty_like(x)
    side = max(triton.next_power_of_2(N), 16 if DOT else 1)
    grid = (triton.cdiv(count, MATRICES),)
    multiply_kernel[grid](x, y, out, count, N, MATRICES, side, DOT, num_warps=num_warps)
    return out
