"""Programs of few warps walk along rows block by block through a block pointer."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.quantise_blocks.problem import BLOCK, SHAPES, check, inputs, reference

__all__ = ["SHAPES", "SPACE", "check", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "ROWS": [1, 2, 4, 8, 16, 32, 64],
    "SPLIT": [1, 2, 4, 8],
    "STAGES": [1, 2, 3],
    "num_warps": [1, 2, 4, 8],
}


@triton.jit
def quantise_walk_kernel(
    x_ptr, codes_ptr, scale_ptr, M, N, length, BLOCK: tl.constexpr,
    ROWS: tl.constexpr, STAGES: tl.constexpr,
):  # fmt: skip
    top, first = tl.program_id(0) * ROWS, tl.program_id(1) * length
    last = tl.minimum(first + length, N // BLOCK)
    corner = (top, first * BLOCK)
    source = tl.make_block_ptr(x_ptr, (M, N), (N, 1), corner, (ROWS, BLOCK), (1, 0))
    target = tl.make_block_ptr(codes_ptr, (M, N), (N, 1), corner, (ROWS, BLOCK), (1, 0))
    rows = top + tl.arange(0, ROWS)
    for block in tl.range(first, last, num_stages=STAGES):
        x = tl.load(source, boundary_check=(0,), padding_option="zero").to(tl.float32)
        scale = tl.maximum(tl.max(tl.abs(x), axis=1), 1e-12) * (1.0 / 448.0)
        codes = x * (1.0 / scale)[:, None]
        tl.store(target, codes.to(codes_ptr.dtype.element_ty), boundary_check=(0,))
        tl.store(scale_ptr + rows * (N // BLOCK) + block, scale, mask=rows < M)
        source = tl.advance(source, (0, BLOCK))
        target = tl.advance(target, (0, BLOCK))


def valid(params, shape):
    """One to 64 elements a thread, no more parts of a row than blocks."""
    held = params["ROWS"] * 128 / (32 * params["num_warps"])
    return 1 <= held <= 64 and params["SPLIT"] <= shape["N"] // 128


def kernel(x, *, ROWS=8, SPLIT=1, STAGES=2, num_warps=4):
    M, N = x.shape
    codes = torch.empty((M, N), dtype=torch.float8_e4m3fn, device=x.device)
    scale = torch.empty((M, N // BLOCK), dtype=torch.float32, device=x.device)
    length = triton.cdiv(N // BLOCK, SPLIT)
    quantise_walk_kernel[(triton.cdiv(M, ROWS), SPLIT)](
        x, codes, scale, M, N, length, BLOCK, ROWS, STAGES, num_warps=num_warps
    )
    return codes, scale
