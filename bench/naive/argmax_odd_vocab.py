"""Greedy choice of a token from an odd vocabulary: the maximum's place, a block after another."""

import torch
import triton
import triton.language as tl

SHAPES = [{"tokens": 2048, "vocab": 50257}]
HELD_OUT_SHAPES = [{"tokens": 7, "vocab": 1003}]


def reference(logits):
    return logits.argmax(-1)


def inputs(tokens=2048, vocab=50257, device="cuda"):
    return (torch.randn(tokens, vocab, dtype=torch.float32, device=device),)


@triton.jit
def choose(logits_ptr, choice_ptr, vocab, BLOCK: tl.constexpr):
    token = tl.program_id(0)
    best = -float("inf")
    place = 0
    for i in range(tl.cdiv(vocab, BLOCK)):
        cols = i * BLOCK + tl.arange(0, BLOCK)
        x = tl.load(logits_ptr + token * vocab + cols, mask=cols < vocab, other=-float("inf"))
        peak = tl.max(x, axis=0)
        at = tl.argmax(x, axis=0)
        place = tl.where(peak > best, i * BLOCK + at, place)
        best = tl.where(peak > best, peak, best)
    tl.store(choice_ptr + token, place.to(tl.int64))


def kernel(logits):
    tokens, vocab = logits.shape
    choice = torch.empty(tokens, dtype=torch.int64, device=logits.device)
    choose[(tokens,)](logits, choice, vocab, BLOCK=256)
    return choice
