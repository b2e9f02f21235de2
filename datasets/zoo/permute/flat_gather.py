"""A flat sweep over the result or the input; the place on the other side by division."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.permute.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "BLOCK": [128, 256, 512, 1024, 2048, 4096],
    "SCATTER": [False, True],
    "PROGRAMS": [0, 528, 1056, 2112],
    "num_warps": [1, 2, 4, 8],
}


@triton.jit
def flat_kernel(x_ptr, out_ptr, S, H, D, total, BLOCK: tl.constexpr, SCATTER: tl.constexpr):
    for start in range(tl.program_id(0) * BLOCK, total, tl.num_programs(0) * BLOCK):
        at = start + tl.arange(0, BLOCK)
        inside = at < total
        row, d = at // D, at % D
        if SCATTER:  # over the input: (batch, token, head)
            h, s, b = row % H, row // H % S, row // (H * S)
            x = tl.load(x_ptr + at, mask=inside)
            tl.store(out_ptr + ((b * H + h) * S + s) * D + d, x, mask=inside)
        else:
            s, h, b = row % S, row // S % H, row // (H * S)
            x = tl.load(x_ptr + ((b * S + s) * H + h) * D + d, mask=inside)
            tl.store(out_ptr + at, x, mask=inside)


def valid(params, shape):
    """One to 32 elements a thread; PROGRAMS = 0 stands for one a block."""
    return 1 <= params["BLOCK"] / (32 * params["num_warps"]) <= 32


def kernel(x, *, BLOCK=512, SCATTER=False, PROGRAMS=0, num_warps=2):
    B, S, H, D = x.shape
    out = torch.empty((B, H, S, D), dtype=x.dtype, device=x.device)
    blocks = triton.cdiv(x.numel(), BLOCK)
    grid = (min(PROGRAMS or blocks, blocks),)
    flat_kernel[grid](x, out, S, H, D, x.numel(), BLOCK, SCATTER, num_warps=num_warps)
    return out
