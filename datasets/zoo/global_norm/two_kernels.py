"""A fixed number of programs strides over the vector, a sum each; one program folds those."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.global_norm.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "PROGRAMS": [132, 264, 512, 1024, 2048],
    "BLOCK": [512, 1024, 2048, 4096, 8192],
    "STAGES": [1, 2, 4],
    "num_warps": [2, 4, 8, 16],
}


@triton.jit
def squares_kernel(x_ptr, part_ptr, n, BLOCK: tl.constexpr, STAGES: tl.constexpr):
    pid = tl.program_id(0)
    total = tl.zeros((BLOCK,), dtype=tl.float32)
    for start in tl.range(pid * BLOCK, n, tl.num_programs(0) * BLOCK, num_stages=STAGES):
        i = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + i, mask=i < n, other=0.0).to(tl.float32)
        total = tl.fma(x, x, total)
    tl.store(part_ptr + pid, tl.sum(total, axis=0))


@triton.jit
def norm_kernel(part_ptr, out_ptr, parts, PARTS: tl.constexpr):
    i = tl.arange(0, PARTS)
    part = tl.load(part_ptr + i, mask=i < parts, other=0.0)
    tl.store(out_ptr, tl.sqrt(tl.sum(part, axis=0)))


def valid(params, shape):
    """One to 64 elements a thread, a block for every second program, blocks ahead that fit."""
    held = params["BLOCK"] / (32 * params["num_warps"])
    busy = params["PROGRAMS"] * params["BLOCK"] <= 2 * shape["N"]
    return 1 <= held <= 64 and busy and params["STAGES"] * params["BLOCK"] * 4 <= 200 * 1024


def kernel(x, *, PROGRAMS=264, BLOCK=1024, STAGES=1, num_warps=4):
    part = torch.empty(PROGRAMS, dtype=torch.float32, device=x.device)
    out = torch.empty(1, dtype=torch.float32, device=x.device)
    squares_kernel[(PROGRAMS,)](x, part, x.numel(), BLOCK, STAGES, num_warps=num_warps)
    norm_kernel[(1,)](part, out, PROGRAMS, triton.next_power_of_2(PROGRAMS), num_warps=4)
    return out
