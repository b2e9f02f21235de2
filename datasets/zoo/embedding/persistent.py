"""A fixed number of programs; the tokens of the next step are read before this step's rows."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.embedding.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "PROGRAMS": [132, 264, 528, 1056],
    "TOKENS": [1, 2, 4, 8, 16],
    "BLOCK": [64, 128, 256, 512, 1024],
    "num_warps": [1, 2, 4, 8],
}


@triton.jit
def embedding_persistent_kernel(
    table_ptr, tokens_ptr, out_ptr, T, D, TOKENS: tl.constexpr, BLOCK: tl.constexpr
):
    stride = tl.num_programs(0) * TOKENS
    t = tl.program_id(0) * TOKENS + tl.arange(0, TOKENS)
    token = tl.load(tokens_ptr + t, mask=t < T, other=0)
    for _ in range(tl.program_id(0) * TOKENS, T, stride):
        following = tl.load(tokens_ptr + t + stride, mask=t + stride < T, other=0)
        source = table_ptr + token[:, None] * D
        target = out_ptr + t[:, None].to(tl.int64) * D
        for start in range(0, D, BLOCK):
            d = start + tl.arange(0, BLOCK)[None, :]
            inside = (t[:, None] < T) & (d < D)
            tl.store(target + d, tl.load(source + d, mask=inside), mask=inside)
        t += stride
        token = following


def valid(params, shape):
    """One to 64 elements a thread, tokens for every program, no block far longer than a row."""
    held = params["TOKENS"] * params["BLOCK"] / (32 * params["num_warps"])
    busy = params["PROGRAMS"] * params["TOKENS"] <= 2 * shape["T"]
    return 1 <= held <= 64 and busy and params["BLOCK"] < 4 * shape["D"]


def kernel(table, tokens, *, PROGRAMS=264, TOKENS=2, BLOCK=128, num_warps=4):
    T, D = tokens.shape[0], table.shape[1]
    out = torch.empty((T, D), dtype=table.dtype, device=table.device)
    embedding_persistent_kernel[(PROGRAMS,)](
        table, tokens, out, T, D, TOKENS, BLOCK, num_warps=num_warps
    )
    return out
