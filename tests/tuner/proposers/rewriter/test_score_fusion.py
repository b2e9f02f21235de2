"""Scores of attention that need no memory between two products."""

from __future__ import annotations

import pytest
from rewriting import HEADER, variants

from solkit.tuner.proposers.rewriter._proposer import undefined_names
from solkit.tuner.proposers.rewriter.score_fusion import FuseScores

SHAPE = {"B": 2, "S": 40}
REFERENCE = """
def reference(q, k, v):
    scores = q @ k.transpose(1, 2) * 0.25
    return torch.softmax(scores, -1) @ v


def inputs(B=2, S=40, device="cuda"):
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


def test_a_mask_that_is_the_rows_length_ends_no_walk_early():
    masked = BLOCK_SOFTMAX.replace("* 4\n", "* 4\n    x = tl.where(c < S, x, -float('inf'))\n")
    source = REFERENCE + SCORES + masked + VALUES + LAUNCHES
    (variant,) = variants(FuseScores(), source, **SHAPE)
    assert "tl.minimum" not in variant


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


WINDOW = """

@triton.jit
def softmax(s, S, width, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    i = row % S
    c = tl.arange(0, BLOCK)
    x = tl.load(s + row * S + c, mask=(c < S) & (c > i - width), other=-float("inf"))
    x = tl.where(c <= i, x, -float("inf"))
    e = tl.exp(x - tl.max(x, 0))
    tl.store(s + row * S + c, e / tl.sum(e, 0), mask=c < S)
"""
WINDOWED = (
    ATTENTION.replace(SOFTMAX, WINDOW)
    .replace("(s, S, BLOCK=32)", "(s, S, 9, BLOCK=triton.next_power_of_2(S))")
    .replace(
        "    return torch.softmax",
        "    ahead = torch.arange(q.shape[1], device=q.device)\n"
        "    ahead = ahead[:, None] - ahead[None, :]\n"
        "    scores = scores.masked_fill((ahead < 0) | (ahead >= 9), -float('inf'))\n"
        "    return torch.softmax",
    )
)
BY_AXES = WINDOWED.replace("softmax[(B * S,)]", "softmax[(S, B)]").replace(
    "    row = tl.program_id(0)\n    i = row % S\n",
    "    i = tl.program_id(0)\n    row = tl.program_id(1) * S + i\n",
)


@pytest.mark.slow
@pytest.mark.parametrize("source", [WINDOWED, BY_AXES], ids=["flat", "axes"])
def test_masks_of_a_row_and_its_columns_are_taken_along(source, is_right):
    variant, whole = variants(FuseScores(), source, **SHAPE)
    assert variant.count("@triton.jit") == 1
    assert is_right(variant, source, **SHAPE)
    assert variant.count("tl.where(") == whole.count("tl.where(") == 3


def test_blocks_of_columns_that_no_row_takes_are_not_walked_over():
    variant, whole = variants(FuseScores(), WINDOWED, **SHAPE)
    assert "range(first, last, BN)" in variant
    assert "last = tl.minimum(S, tl.max(rm, axis=0) + 1)" in variant  # up to the last row's own
    assert "tl.min((rm - width), axis=0) + 1" in variant
    assert "range(0, S, BN)" in whole
    either = WINDOWED.replace("c <= i,", "(c <= i) | (c < 4),")
    (variant, _) = variants(FuseScores(), either, **SHAPE)
    assert "last = tl.minimum" not in variant  # the window's lower end alone
    finite = WINDOWED.replace('(c <= i, x, -float("inf"))', "(c <= i, x, -10.0)")
    assert finite != WINDOWED
    (variant,) = variants(FuseScores(), finite, **SHAPE)
    assert "range(0, S, BN)" in variant


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("i = row % S", "i = row"),  # a row of all batches
        ("i = row % S", "i = row // S"),
        ("i = row % S", "i = row % (S + 1)"),
        ("i = row % S", "i = row % width"),
        ('& (c > i - width), other=-float("inf"))', "& (c > i - width), other=0.0)"),
        ("/ tl.sum(e, 0), mask=c < S)", "/ tl.sum(e, 0), mask=(c < S) & (c <= i))"),
        ("tl.where(c <= i, x", "tl.where(c <= tl.load(s + row), x"),
        ("tl.sum(e, 0), mask", "tl.sum(tl.where(c < i, e, 0.0), 0), mask"),
    ],
)
def test_other_indices_and_masks_of_rows_are_left_alone(old, new):
    assert old in WINDOWED
    assert not variants(FuseScores(), WINDOWED.replace(old, new), **SHAPE)


def test_weights_get_the_type_of_the_values_in_sums_of_any_form():
    source = ATTENTION.replace("acc = tl.dot(w, x, acc)", "acc += tl.dot(w, x)")
    (variant,) = variants(FuseScores(), source, **SHAPE)
    assert "acc += tl.dot(w.to(x.dtype), x)" in variant


CAUSAL = ATTENTION.replace(
    "tl.store(at, acc * scale,",
    "acc = acc * scale\n"
    "    acc = tl.where(rn[None, :] <= rm[:, None], acc, float('-inf'))\n"
    "    tl.store(at, acc,",
).replace(
    "    return torch.softmax",
    "    scores = scores.masked_fill(torch.ones_like(scores[0]).triu(1) > 0, -float('inf'))\n"
    "    return torch.softmax",
)


@pytest.mark.slow
def test_masks_of_the_first_product_end_the_walk_too(is_right):
    variant, _ = variants(FuseScores(), CAUSAL, **SHAPE)
    assert "last = tl.minimum(S, tl.max(rm, axis=0) + 1)" in variant
    assert is_right(variant, CAUSAL, **SHAPE)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("acc, float('-inf'))", "acc, 0.0)"),
        ("rn[None, :] <= rm[:, None]", "rn[None, :] <= 2 * rm[:, None]"),
        ("tl.store(at, acc,", "tl.store(at, tl.exp(acc),"),
    ],
)
def test_other_masks_of_the_first_product_end_no_walk(old, new):
    assert old in CAUSAL
    (variant,) = variants(FuseScores(), CAUSAL.replace(old, new), **SHAPE)
    assert "range(0, S, BN)" in variant
