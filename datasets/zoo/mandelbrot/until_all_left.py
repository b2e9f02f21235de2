"""A tile goes on until its last point has left, looked up every ROUND steps."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.mandelbrot.problem import SHAPES, TOLERANCE, check, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "check", "inputs", "kernel", "reference", "valid"]


SPACE = {
    "BLOCK_Y": [1, 2, 4, 8, 16],
    "BLOCK_X": [16, 32, 64, 128],
    "ROUND": [1, 4, 8],
    "num_warps": [1, 2, 4],
}


@triton.jit
def escape_kernel(
    real_ptr, imaginary_ptr, out_ptr, W, H, steps,
    BLOCK_Y: tl.constexpr, BLOCK_X: tl.constexpr, ROUND: tl.constexpr,
):  # fmt: skip
    column = tl.program_id(0) * BLOCK_X + tl.arange(0, BLOCK_X)
    row = tl.program_id(1) * BLOCK_Y + tl.arange(0, BLOCK_Y)
    a = tl.load(real_ptr + column, mask=column < W, other=4.0)[None, :]
    b = tl.load(imaginary_ptr + row, mask=row < H, other=4.0)[:, None]
    x = tl.zeros((BLOCK_Y, BLOCK_X), dtype=tl.float32)
    y = tl.zeros((BLOCK_Y, BLOCK_X), dtype=tl.float32)
    count = tl.zeros((BLOCK_Y, BLOCK_X), dtype=tl.int32)
    step = 0
    left = 1
    while (step < steps) & (left > 0):
        for turn in tl.static_range(ROUND):
            x, y = x * x - y * y + a, 2 * x * y + b
            stays = (x * x + y * y <= 4.0) & (step + turn < steps)
            count += stays.to(tl.int32)
        left = tl.max(tl.max((x * x + y * y <= 4.0).to(tl.int32), axis=1), axis=0)
        step += ROUND
    inside = (row[:, None] < H) & (column[None, :] < W)
    tl.store(out_ptr + row[:, None] * W + column[None, :], count, mask=inside)


def valid(params, shape):
    """One to 8 points a thread."""
    points = params["BLOCK_X"] * params["BLOCK_Y"]
    return 1 <= points / (32 * params["num_warps"]) <= 8


def kernel(real, imaginary, steps, *, BLOCK_Y=4, BLOCK_X=32, ROUND=4, num_warps=4):
    W, H = real.numel(), imaginary.numel()
    out = torch.empty((H, W), dtype=torch.int32, device=real.device)
    grid = (triton.cdiv(W, BLOCK_X), triton.cdiv(H, BLOCK_Y))
    escape_kernel[grid](
        real, imaginary, out, W, H, steps, BLOCK_Y, BLOCK_X, ROUND, num_warps=num_warps
    )
    return out
