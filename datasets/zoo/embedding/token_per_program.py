"""A program a token, its row copied in chunks: the textbook form."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.embedding.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "BLOCK": [32, 64, 128, 256, 512, 1024, 2048, 4096],
    "STORE": ["", ".cs", ".cg"],
    "EVICTION": ["", "evict_last"],
    "num_warps": [1, 2, 4, 8],
}


@triton.jit
def embedding_token_kernel(
    table_ptr, tokens_ptr, out_ptr, D,
    BLOCK: tl.constexpr, EVICTION: tl.constexpr, STORE: tl.constexpr,
):  # fmt: skip
    t = tl.program_id(0).to(tl.int64)
    source = table_ptr + tl.load(tokens_ptr + t) * D
    for start in range(0, D, BLOCK):
        d = start + tl.arange(0, BLOCK)
        row = tl.load(source + d, mask=d < D, eviction_policy=EVICTION)
        tl.store(out_ptr + t * D + d, row, mask=d < D, cache_modifier=STORE)


def valid(params, shape):
    """One to 64 elements a thread, and no block much longer than a row."""
    held = params["BLOCK"] / (32 * params["num_warps"])
    return 1 <= held <= 64 and params["BLOCK"] <= 4 * shape["D"]


def kernel(table, tokens, *, BLOCK=256, STORE="", EVICTION="", num_warps=2):
    T, D = tokens.shape[0], table.shape[1]
    out = torch.empty((T, D), dtype=table.dtype, device=table.device)
    embedding_token_kernel[(T,)](table, tokens, out, D, BLOCK, EVICTION, STORE, num_warps=num_warps)
    return out
