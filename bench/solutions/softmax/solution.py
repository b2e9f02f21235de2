"""Softmax in three loops, written where the benchmark says."""

import torch
import triton
import triton.language as tl

BLOCK = 128


@triton.jit
def kernel(scores_ptr, out_ptr, length, temperature, stride, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    peak = float("-inf")
    start = 0
    while start < length:
        at = start + tl.arange(0, BLOCK)
        s = (
            tl.load(scores_ptr + row * stride + at, mask=at < length, other=float("-inf")).to(
                tl.float32
            )
            / temperature
        )
        peak = tl.maximum(peak, tl.max(s, axis=0))
        start += BLOCK
    total = 0.0
    start = 0
    while start < length:
        at = start + tl.arange(0, BLOCK)
        s = (
            tl.load(scores_ptr + row * stride + at, mask=at < length, other=float("-inf")).to(
                tl.float32
            )
            / temperature
        )
        total += tl.sum(tl.exp(s - peak), axis=0)
        start += BLOCK
    start = 0
    while start < length:
        at = start + tl.arange(0, BLOCK)
        s = (
            tl.load(scores_ptr + row * stride + at, mask=at < length, other=float("-inf")).to(
                tl.float32
            )
            / temperature
        )
        tl.store(out_ptr + row * stride + at, tl.exp(s - peak) / total, mask=at < length)
        start += BLOCK


@torch.no_grad()
def run(scores: torch.Tensor, temperature: float, probabilities: torch.Tensor) -> None:
    """Softmax of each row."""
    batch, length = scores.shape
    kernel[(batch,)](scores, probabilities, length, temperature, scores.stride(0), BLOCK=BLOCK)
