"""Scores of attention that need no memory between two products."""

from __future__ import annotations

import pytest
from rewriting import HEADER, variants

from solkit.tuner.proposers.rewriter._parse import undefined_names
from solkit.tuner.proposers.rewriter.score_fusion import FuseScores

SHAPE = {"B": 2, "S": 80}
REFERENCE = """
def reference(q, k, v):
    scores = q @ k.transpose(1, 2) * 0.25
    return torch.softmax(scores, -1) @ v


def inputs(B=2, S=80, device="cuda"):
    return tuple(torch.randn(B, S, 16, device=device) for _ in range(3))
"""
SCORES = """

@triton.jit
def scores(q, k, s, srow, S, scale, D: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr):
    tiles = tl.cdiv(S, BN)
    i = tl.program_id(0) // tiles
    j = tl.program_id(0) % tiles
    b = tl.program_id(1)
    rm = i * BM + tl.arange(0, BM)
    rn = j * BN + tl.arange(0, BN)
    acc = tl.zeros((BM, BN), tl.float32)
    for d in range(0, D, 16):
        rd = d + tl.arange(0, 16)
        x = tl.load(q + b * S * D + rm[:, None] * D + rd[None, :], mask=rm[:, None] < S, other=0)
        y = tl.load(k + (b * S + rn[None, :]) * D + rd[:, None], mask=rn[None, :] < S, other=0)
        acc += tl.dot(x, y)
    at = s + b * S * srow + rm[:, None] * srow + rn[None, :]
    tl.store(at, acc * scale, mask=(rm[:, None] < S) & (rn[None, :] < S))
"""
SOFTMAX = """

@triton.jit
def softmax(s, S, BLOCK: tl.constexpr):
    row = s + tl.program_id(0) * S
    peak = -float("inf")
    for start in range(0, S, BLOCK):
        c = start + tl.arange(0, BLOCK)
        peak = tl.maximum(peak, tl.max(tl.load(row + c, mask=c < S, other=-float("inf")), 0))
    total = 0.0
    for start in range(0, S, BLOCK):
        c = start + tl.arange(0, BLOCK)
        x = tl.load(row + c, mask=c < S, other=-float("inf"))
        total += tl.sum(tl.exp(x - peak), 0)
    for start in range(0, S, BLOCK):
        c = start + tl.arange(0, BLOCK)
        x = tl.load(row + c, mask=c < S, other=-float("inf"))
        tl.store(row + c, tl.exp(x - peak) / total, mask=c < S)
"""
VALUES = """

@triton.jit
def weighted(p, v, o, S, D: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr):
    b = tl.program_id(1)
    rm = tl.program_id(0) * BM + tl.arange(0, BM)
    rd = tl.arange(0, D)
    acc = tl.zeros((BM, D), tl.float32)
    for start in range(0, S, BN):
        rn = start + tl.arange(0, BN)
        inside = (rm[:, None] < S) & (rn[None, :] < S)
        at = p + (b * S + rm[:, None]) * S + rn[None, :]
        w = tl.load(at, mask=inside, other=0)
        x = tl.load(v + (b * S + rn[:, None]) * D + rd[None, :], mask=rn[:, None] < S, other=0)
        acc = tl.dot(w, x, acc)
    tl.store(o + (b * S + rm[:, None]) * D + rd[None, :], acc, mask=rm[:, None] < S)
"""
LAUNCHES = """

def kernel(q, k, v):
    B, S, D = q.shape
    s = torch.empty((B, S, S), device=q.device, dtype=torch.float32)
    o = torch.empty_like(q)
    t = triton.cdiv(S, 16)
    scores[(t * t, B)](q, k, s, s.stride(1), S, 0.25, D=D, BM=16, BN=16)
    softmax[(B * S,)](s, S, BLOCK=32)
    weighted[(triton.cdiv(S, 32), B)](s, v, o, S, D=D, BM=32, BN=16)
    return o
"""
ATTENTION = REFERENCE + SCORES + SOFTMAX + VALUES + LAUNCHES
BLOCK_SOFTMAX = """

@triton.jit
def softmax(s, S, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    c = tl.arange(0, BLOCK)
    x = tl.load(s + row * S + c, mask=c < S, other=-float("inf")) * 4
    e = tl.exp2((x - c * 0.125) - tl.max(x - c * 0.125, 0))
    tl.store(s + row * S + c, e / tl.sum(e, 0), mask=c < S)
"""


def test_one_launch_holds_scores_in_registers(is_right):
    (variant,) = variants(FuseScores(), ATTENTION, **SHAPE)
    assert is_right(variant, ATTENTION, **SHAPE)
    assert variant.count("@triton.jit") == 1
    assert undefined_names(variant) == undefined_names(HEADER + ATTENTION)
    assert "torch.empty(" not in variant


@pytest.mark.slow
def test_what_is_done_to_scores_and_other_exponentials_stay(is_right):
    source = ATTENTION.replace(SOFTMAX, BLOCK_SOFTMAX)
    source = source.replace("BLOCK=32", "BLOCK=triton.next_power_of_2(S)").replace(
        "softmax(scores, -1)",
        "softmax((scores * 4 - torch.arange(q.shape[1], device=q.device) * 0.125) * 0.6931472, -1)",
    )
    (variant,) = variants(FuseScores(), source, **SHAPE)
    assert is_right(variant, source, **SHAPE)


@pytest.mark.slow
def test_scores_beyond_a_row_have_no_weight_whatever_is_done_to_them(is_right):
    soft_max = BLOCK_SOFTMAX.replace('=-float("inf")) * 4', '=-float("inf"))').replace(
        "    e = tl.exp2((x - c * 0.125) - tl.max(x - c * 0.125, 0))\n",
        "    x = tl.sigmoid(x)\n    e = tl.where(c < S, tl.exp(x - tl.max(x, 0)), 0.0)\n",
    )
    source = ATTENTION.replace(SOFTMAX, soft_max)
    source = source.replace("BLOCK=32", "BLOCK=triton.next_power_of_2(S)").replace(
        "softmax(scores, -1)", "softmax(torch.sigmoid(scores), -1)"
    )
    (variant,) = variants(FuseScores(), source, **SHAPE)
    assert is_right(variant, source, **SHAPE)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("softmax[(B * S,)]", "softmax[(S,)]"),  # the first batch alone
        ("return o", "return o, s"),
        ("o = torch.empty_like(q)", "o = q"),  # rows that are still to be read
        ("torch.empty((B, S, S)", "torch.zeros((B, S, S)"),
        ("tl.exp(x - peak) / total", "tl.exp(x - peak) / (total + 1)"),
        ("peak = tl.maximum(peak, tl.max(", "peak = (tl.max("),  # of the last block alone
        ("tl.exp(x - peak), 0)", "tl.exp(x), 0)"),
        (
            "    for start in range(0, S, BN):\n        rn",
            "    for start in range(BN, S, BN):\n        rn",
        ),
        ("acc = tl.dot(w, x, acc)", "acc = tl.dot(w * w, x, acc)"),
        ("acc = tl.dot(w, x, acc)", "acc = tl.dot(w, x, acc) + tl.sum(w)"),
        ("tl.zeros((BM, D), tl.float32)", "tl.full((BM, D), 1.0, tl.float32)"),
        (
            "p + (b * S + rm[:, None]) * S + rn[None, :]",
            "p + (b * S + rn[None, :]) * S + rm[:, None]",
        ),
        ("    softmax[", "    s.mul_(2)\n    softmax["),
        (  # some scores have no weight, though at this size all have
            "total += tl.sum(tl.exp(x - peak), 0)",
            "total += tl.sum(tl.where(c < S // 80 * 80, tl.exp(x - peak), 0.0), 0)",
        ),
        ("& (rn[None, :] < S)\n        at", "& (rn[None, :] < S // 80 * 80)\n        at"),
        ("& (rn[None, :] < S)\n        at", "& (rn[None, :] <= rm[:, None])\n        at"),
    ],
)
def test_near_misses_are_left_alone(old, new):
    source = ATTENTION.replace(old, new)
    assert source != ATTENTION
    assert not variants(FuseScores(), source, **SHAPE)
