"""Several tokens a program one after the other, unrolled, so that many rows are under way."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.embedding.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "TOKENS": [2, 4, 8, 16],
    "BLOCK": [32, 64, 128, 256, 512, 1024],
    "STRIDED": [True, False],
    "num_warps": [1, 2, 4, 8],
}


@triton.jit
def embedding_unrolled_kernel(
    table_ptr, tokens_ptr, out_ptr, T, D,
    TOKENS: tl.constexpr, BLOCK: tl.constexpr, STRIDED: tl.constexpr,
):  # fmt: skip
    d = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    d = tl.max_contiguous(d, BLOCK)
    for k in tl.static_range(TOKENS):
        # strided, neighbouring programs read neighbouring tokens
        pid = tl.program_id(0)
        t = pid + k * tl.num_programs(0) if STRIDED else pid * TOKENS + k
        token = tl.load(tokens_ptr + t, mask=t < T, other=0)
        row = tl.load(table_ptr + token * D + d, mask=d < D, other=0.0)
        tl.store(out_ptr + t * D + d, row, mask=(d < D) & (t < T))


def valid(params, shape):
    """One to 32 elements a thread and token, and no block much longer than a row."""
    held = params["BLOCK"] / (32 * params["num_warps"])
    return 1 <= held <= 32 and params["BLOCK"] <= 4 * shape["D"]


def kernel(table, tokens, *, TOKENS=4, BLOCK=128, STRIDED=False, num_warps=2):
    T, D = tokens.shape[0], table.shape[1]
    out = torch.empty((T, D), dtype=table.dtype, device=table.device)
    grid = (triton.cdiv(T, TOKENS), triton.cdiv(D, BLOCK))
    embedding_unrolled_kernel[grid](
        table, tokens, out, T, D, TOKENS, BLOCK, STRIDED, num_warps=num_warps
    )
    return out
