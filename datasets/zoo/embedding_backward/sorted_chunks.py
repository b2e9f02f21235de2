"""Equal chunks of the sorted positions; a program adds up a run of a token before its atomic."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.embedding_backward.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "CHUNK": [4, 8, 16, 32, 64],
    "COLS": [32, 64, 128, 256, 512],
    "num_warps": [1, 2, 4],
}


@triton.jit
def chunk_kernel(
    grads_ptr, tokens_ptr, order_ptr, out_ptr, T, D, CHUNK: tl.constexpr, COLS: tl.constexpr
):
    first = tl.program_id(0) * CHUNK
    cols = tl.program_id(1) * COLS + tl.arange(0, COLS)
    token = tl.load(tokens_ptr + tl.load(order_ptr + first))
    total = tl.zeros((COLS,), dtype=tl.float32)
    for i in range(first, tl.minimum(first + CHUNK, T)):
        t = tl.load(order_ptr + i)
        here = tl.load(tokens_ptr + t)
        row = tl.load(grads_ptr + t * D + cols, mask=cols < D, other=0.0).to(tl.float32)
        if here != token:
            tl.atomic_add(out_ptr + token * D + cols, total, mask=cols < D, sem="relaxed")
            total = tl.zeros((COLS,), dtype=tl.float32)
            token = here
        total += row
    tl.atomic_add(out_ptr + token * D + cols, total, mask=cols < D, sem="relaxed")


def valid(params, shape):
    """One to 8 columns a thread, no band far wider than a row."""
    held = params["COLS"] / (32 * params["num_warps"])
    return 1 <= held <= 8 and params["COLS"] < 2 * shape["D"]


def kernel(grads, tokens, order, starts, *, CHUNK=16, COLS=64, num_warps=1):
    T, D = grads.shape
    out = torch.zeros((starts.shape[0] - 1, D), dtype=torch.float32, device=grads.device)
    grid = (triton.cdiv(T, CHUNK), triton.cdiv(D, COLS))
    chunk_kernel[grid](grads, tokens, order, out, T, D, CHUNK, COLS, num_warps=num_warps)
    return out
