"""Greedy choice of a token: the place of the largest logit, a block of the row after another."""

import torch
import triton
import triton.language as tl

SHAPES = [{"batch": 32, "vocab": 131072}]
HELD_OUT_SHAPES = [{"batch": 7, "vocab": 50257}]


def reference(logits):
    return logits.argmax(-1)


def inputs(batch=32, vocab=131072, dtype=torch.float32, device="cuda"):
    return (torch.randn(batch, vocab, dtype=dtype, device=device),)


@triton.jit
def greedy(logits_ptr, ids_ptr, row_stride, vocab, BLOCK: tl.constexpr):
    b = tl.program_id(0)
    row = logits_ptr + b * row_stride
    best = -float("inf")
    best_id = 0
    for off in range(0, vocab, BLOCK):
        cols = off + tl.arange(0, BLOCK)
        vals = tl.load(row + cols, mask=cols < vocab, other=-float("inf"))
        m = tl.max(vals, axis=0)
        a = tl.argmax(vals, axis=0)
        better = m > best
        best = tl.where(better, m, best)
        best_id = tl.where(better, off + a, best_id)
    tl.store(ids_ptr + b, best_id.to(tl.int64))


def kernel(logits):
    batch, vocab = logits.shape
    ids = torch.empty(batch, dtype=torch.int64, device=logits.device)
    greedy[(batch,)](logits, ids, logits.stride(0), vocab, BLOCK=256)
    return ids
