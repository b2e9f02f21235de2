"""Rows of a table gathered by index, several tokens a program."""

import torch
import torch.nn.functional as F
import triton
import triton.language as tl

SHAPES = [{"T": 32768, "V": 32000, "D": 1024}, {"T": 65536, "V": 100000, "D": 96}]
SPACE = {
    "TOKENS": [1, 2, 4, 8, 16, 32, 64],
    "BLOCK": [32, 64, 128, 256, 512, 1024],
    "num_warps": [1, 2, 4, 8],
}


def reference(table, tokens):
    return F.embedding(tokens, table)


def inputs(T=32768, V=32000, D=1024, dtype=torch.float16, device="cuda"):
    table = torch.randn(V, D, dtype=dtype, device=device)
    return table, torch.randint(0, V, (T,), device=device)


@triton.jit
def embedding_kernel(
    table_ptr, tokens_ptr, out_ptr, T, D, TOKENS: tl.constexpr, BLOCK: tl.constexpr
):
    t = tl.program_id(0) * TOKENS + tl.arange(0, TOKENS)
    d = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = (t[:, None] < T) & (d[None, :] < D)
    token = tl.load(tokens_ptr + t, mask=t < T, other=0)
    row = tl.load(table_ptr + token[:, None] * D + d[None, :], mask=inside, other=0.0)
    tl.store(out_ptr + t[:, None] * D + d[None, :], row, mask=inside)


def valid(params, shape):
    """One to 64 elements a thread, and no block much longer than a row."""
    held = params["TOKENS"] * params["BLOCK"] / (32 * params["num_warps"])
    return 1 <= held <= 64 and params["BLOCK"] < 2 * shape["D"]


def kernel(table, tokens, *, TOKENS=8, BLOCK=128, num_warps=4):
    T, D = tokens.shape[0], table.shape[1]
    out = torch.empty((T, D), dtype=table.dtype, device=table.device)
    grid = (triton.cdiv(T, TOKENS), triton.cdiv(D, BLOCK))
    embedding_kernel[grid](table, tokens, out, T, D, TOKENS, BLOCK, num_warps=num_warps)
    return out
