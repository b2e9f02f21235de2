"""Programs stride over the vector with a mean and squares each; torch joins these at the end."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.global_standard_deviation.problem import (
    SHAPES,
    TOLERANCE,
    inputs,
    reference,
)

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "BLOCK": [1024, 2048, 4096],
    "PROGRAMS": [132, 528, 2112],
    "STAGES": [1, 3],
    "num_warps": [4, 8],
}


@triton.jit
def moment_kernel(x_ptr, part_ptr, N, programs, BLOCK: tl.constexpr, STAGES: tl.constexpr):
    pid = tl.program_id(0)
    shift = tl.load(x_ptr).to(tl.float32)
    total = tl.zeros((BLOCK,), dtype=tl.float32)
    squares = tl.zeros((BLOCK,), dtype=tl.float32)
    count = 0
    for start in tl.range(pid * BLOCK, N, programs * BLOCK, num_stages=STAGES):
        at = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + at, mask=at < N, other=0.0).to(tl.float32)
        off = tl.where(at < N, x - shift, 0.0)
        total += off
        squares += off * off
        count += tl.minimum(N - start, BLOCK)
    whole = tl.sum(total, axis=0)
    number = tl.maximum(count, 1).to(tl.float32)
    tl.store(part_ptr + pid, count.to(tl.float32))
    tl.store(part_ptr + programs + pid, shift + whole / number)
    tl.store(part_ptr + 2 * programs + pid, tl.sum(squares, axis=0) - whole * whole / number)


def valid(params, shape):
    """Four to 16 elements a thread; a block for every program."""
    busy = params["PROGRAMS"] * params["BLOCK"] <= shape["N"]
    return busy and 4 <= params["BLOCK"] / (32 * params["num_warps"]) <= 16


def kernel(x, *, BLOCK=2048, PROGRAMS=528, STAGES=3, num_warps=8):
    N = x.shape[0]
    part = torch.empty((3, PROGRAMS), dtype=torch.float32, device=x.device)
    moment_kernel[(PROGRAMS,)](x, part, N, PROGRAMS, BLOCK, STAGES, num_warps=num_warps)
    count, mean, squares = part.double()
    middle = (count * mean).sum() / N
    variance = (squares + count * (mean - middle).square()).sum() / N
    return variance.sqrt().float().reshape(1)
