"""Cross-entropy with each row's vocabulary split among programs, merged by a second launch."""

import torch
import triton
import triton.language as tl

from solkit.datasets.zoo.cross_entropy.problem import SHAPES, TOLERANCE, inputs, reference

__all__ = ["SHAPES", "SPACE", "TOLERANCE", "inputs", "kernel", "reference", "valid"]

SPACE = {
    "SPLITS": [2, 4, 8, 16, 32, 64],
    "BLOCK": [256, 512, 1024, 2048, 4096, 8192],
    "ROW_MAJOR": [False, True],
    "num_warps": [1, 2, 4, 8, 16],
    "num_stages": [2, 4],
}


@triton.jit
def partial_kernel(
    logits_ptr, peak_ptr, total_ptr, V, share, SPLITS: tl.constexpr, BLOCK: tl.constexpr,
    ROW_MAJOR: tl.constexpr,
):  # fmt: skip
    token = tl.program_id(1 if ROW_MAJOR else 0)
    split = tl.program_id(0 if ROW_MAJOR else 1)
    row_ptr = logits_ptr + token.to(tl.int64) * V
    first = split * share
    last = tl.minimum(first + share, V)
    peaks = tl.full((BLOCK,), -1e30, tl.float32)
    totals = tl.zeros((BLOCK,), tl.float32)
    for start in range(first, last, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        x = tl.load(row_ptr + cols, mask=cols < last, other=float("-inf")).to(tl.float32)
        higher = tl.maximum(peaks, x)
        totals = totals * tl.exp(peaks - higher) + tl.exp(x - higher)
        peaks = higher
    peak = tl.max(peaks, axis=0)
    total = tl.sum(totals * tl.exp(peaks - peak), axis=0)
    tl.store(peak_ptr + token * SPLITS + split, peak)
    tl.store(total_ptr + token * SPLITS + split, total)


@triton.jit
def merge_kernel(
    logits_ptr, targets_ptr, peak_ptr, total_ptr, loss_ptr, T, V, SPLITS: tl.constexpr,
    TOKENS: tl.constexpr,
):  # fmt: skip
    tokens = tl.program_id(0) * TOKENS + tl.arange(0, TOKENS)
    alive = tokens < T
    at = tokens[:, None] * SPLITS + tl.arange(0, SPLITS)[None, :]
    peaks = tl.load(peak_ptr + at, mask=alive[:, None], other=0.0)
    totals = tl.load(total_ptr + at, mask=alive[:, None], other=1.0)
    peak = tl.max(peaks, axis=1)
    total = tl.sum(totals * tl.exp(peaks - peak[:, None]), axis=1)
    targets = tl.load(targets_ptr + tokens, mask=alive, other=0)
    chosen = tl.load(logits_ptr + tokens.to(tl.int64) * V + targets, mask=alive, other=0.0)
    tl.store(loss_ptr + tokens, peak + tl.log(total) - chosen.to(tl.float32), mask=alive)


def valid(params, shape):
    """One to 32 values a thread, and shares no shorter than half a block."""
    held = params["BLOCK"] / (32 * params["num_warps"])
    share = shape["V"] / params["SPLITS"]
    return 1 <= held <= 32 and params["BLOCK"] <= max(256, 2 * share)


def kernel(logits, targets, *, SPLITS=4, BLOCK=256, ROW_MAJOR=False, num_warps=4, num_stages=2):
    T, V = logits.shape
    peaks, totals = torch.empty((2, T, SPLITS), dtype=torch.float32, device=logits.device)
    loss = torch.empty(T, dtype=torch.float32, device=logits.device)
    grid = (SPLITS, T) if ROW_MAJOR else (T, SPLITS)
    partial_kernel[grid](
        logits, peaks, totals, V, triton.cdiv(V, SPLITS), SPLITS, BLOCK, ROW_MAJOR,
        num_warps=num_warps, num_stages=num_stages,
    )  # fmt: skip
    tokens = 16
    merge_kernel[(triton.cdiv(T, tokens),)](
        logits, targets, peaks, totals, loss, T, V, SPLITS, tokens, num_warps=1
    )
    return loss
