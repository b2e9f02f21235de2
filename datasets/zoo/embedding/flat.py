"""Over the output as one vector: each element finds its token by division."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.embedding.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "BLOCK": [128, 256, 512, 1024, 2048, 4096],
    "BLOCKS": [1, 2, 4, 8],
    "STORE": ["", ".cs"],
    "num_warps": [1, 2, 4, 8],
}


@triton.jit
def embedding_flat_kernel(
    table_ptr, tokens_ptr, out_ptr, n, D,
    BLOCK: tl.constexpr, BLOCKS: tl.constexpr, STORE: tl.constexpr,
):  # fmt: skip
    i = tl.program_id(0) * (BLOCK * BLOCKS) + tl.arange(0, BLOCK)
    for _ in tl.static_range(BLOCKS):
        t = i // D
        token = tl.load(tokens_ptr + t, mask=i < n, other=0)
        value = tl.load(table_ptr + token * D + (i - t * D), mask=i < n, other=0.0)
        tl.store(out_ptr + i, value, mask=i < n, cache_modifier=STORE)
        i += BLOCK


def valid(params, shape):
    """One to 32 elements a thread."""
    return 1 <= params["BLOCK"] / (32 * params["num_warps"]) <= 32


def kernel(table, tokens, *, BLOCK=1024, BLOCKS=1, STORE="", num_warps=4):
    T, D = tokens.shape[0], table.shape[1]
    out = torch.empty((T, D), dtype=table.dtype, device=table.device)
    grid = (triton.cdiv(T * D, BLOCK * BLOCKS),)
    embedding_flat_kernel[grid](
        table, tokens, out, T * D, D, BLOCK, BLOCKS, STORE, num_warps=num_warps
    )
    return out
