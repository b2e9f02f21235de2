"""Cross-entropy of a strip of rows a program, walked in two-dimensional tiles."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.cross_entropy.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "ROWS": [1, 2, 4, 8, 16],
    "COLS": [64, 128, 256, 512, 1024, 2048],
    "BLOCK_PTR": [False, True],
    "num_warps": [1, 2, 4, 8],
    "num_stages": [1, 2, 4],
}


@triton.jit
def strips_kernel(
    x_ptr, y_ptr, loss_ptr, T, V, ROWS: tl.constexpr, COLS: tl.constexpr,
    BLOCK_PTR: tl.constexpr,
):  # fmt: skip
    top = tl.program_id(0) * ROWS
    t = top + tl.arange(0, ROWS)
    tiles = tl.make_block_ptr(x_ptr, (T, V), (V, 1), (top, 0), (ROWS, COLS), (1, 0))
    base = x_ptr + t.to(tl.int64) * V
    peak = tl.full((ROWS,), -1e30, tl.float32)
    total = tl.zeros((ROWS,), tl.float32)
    for left in range(0, V, COLS):
        c = left + tl.arange(0, COLS)
        if BLOCK_PTR:
            x = tl.load(tiles, boundary_check=(0, 1), padding_option="zero").to(tl.float32)
            x = tl.where(c[None, :] < V, x, -1e30)
            tiles = tl.advance(tiles, (0, COLS))
        else:
            keep = (t < T)[:, None] & (c < V)[None, :]
            x = tl.load(base[:, None] + c[None, :], mask=keep, other=-1e30).to(tl.float32)
        higher = tl.maximum(peak, tl.max(x, axis=1))
        total = total * tl.exp(peak - higher) + tl.sum(tl.exp(x - higher[:, None]), axis=1)
        peak = higher
    y = tl.load(y_ptr + t, mask=t < T, other=0)
    chosen = tl.load(base + y, mask=t < T, other=0.0).to(tl.float32)
    tl.store(loss_ptr + t, peak - chosen + tl.log(total), mask=t < T)


def valid(params, shape):
    """One to 64 values a thread; at least 32 programs; no tile far wider than the vocabulary."""
    held = params["ROWS"] * params["COLS"] / (32 * params["num_warps"])
    near = params["COLS"] <= 512 or params["COLS"] < 2 * shape["V"]
    short = shape["V"] <= 512 * params["COLS"]  # a longer loop takes milliseconds
    return short and near and 1 <= held <= 64 and 32 * params["ROWS"] <= max(32, shape["T"])


def kernel(logits, targets, *, ROWS=1, COLS=512, BLOCK_PTR=False, num_warps=4, num_stages=2):
    T, V = logits.shape
    loss = torch.empty(T, dtype=torch.float32, device=logits.device)
    strips_kernel[(triton.cdiv(T, ROWS),)](
        logits, targets, loss, T, V, ROWS, COLS, BLOCK_PTR,
        num_warps=num_warps, num_stages=num_stages,
    )  # fmt: skip
    return loss
