"""Programs stride over both vectors; torch.sum adds up what each has found."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.vector_dot_large.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "BLOCK": [512, 1024, 2048, 4096],
    "PROGRAMS": [132, 528, 2112],
    "STAGES": [1, 3],
    "num_warps": [4, 8],
}


@triton.jit
def dot_kernel(x_ptr, y_ptr, part_ptr, N, BLOCK: tl.constexpr, STAGES: tl.constexpr):
    total = tl.zeros((BLOCK,), dtype=tl.float32)
    first, step = tl.program_id(0) * BLOCK, tl.num_programs(0) * BLOCK
    for start in tl.range(first, N, step, num_stages=STAGES):
        at = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + at, mask=at < N, other=0.0).to(tl.float32)
        y = tl.load(y_ptr + at, mask=at < N, other=0.0).to(tl.float32)
        total += x * y
    tl.store(part_ptr + tl.program_id(0), tl.sum(total, axis=0))


def valid(params, shape):
    """Two to 16 elements a thread; a block for every program."""
    busy = params["PROGRAMS"] * params["BLOCK"] <= shape["N"]
    return busy and 2 <= params["BLOCK"] / (32 * params["num_warps"]) <= 16


def kernel(x, y, *, BLOCK=1024, PROGRAMS=528, STAGES=3, num_warps=4):
    part = torch.empty(PROGRAMS, dtype=torch.float32, device=x.device)
    dot_kernel[(PROGRAMS,)](x, y, part, x.shape[0], BLOCK, STAGES, num_warps=num_warps)
    return part.sum().reshape(1)
