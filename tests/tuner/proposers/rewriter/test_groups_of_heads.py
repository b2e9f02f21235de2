"""Tiles of the indices that share a quotient, and splits of loops that rescale what they carry."""

from __future__ import annotations

import pytest
from rewriting import rewritten, variants

from solkit.tuner.proposers.rewriter.row_tiles import Tile
from solkit.tuner.proposers.rewriter.split_loops import Split

DECODE = """
TOLERANCE = {"rtol": 1e-3, "atol": 1e-3}


def reference(q, k, v):
    H, D = q.shape
    k, v = (t.repeat_interleave(H // k.shape[0], 0) for t in (k, v))
    return (torch.softmax((k @ q[:, :, None])[:, :, 0], -1)[:, None] @ v)[:, 0]


def inputs(H=6, G=3, S=40, D=16, device="cuda"):
    q = torch.randn(G * (H // G), D, device=device) * 0.3
    return q, *(torch.randn(G, S, D, device=device) for _ in range(2))


@triton.jit
def decode(Q, K, V, O, S, SHARE, D: tl.constexpr, B: tl.constexpr):
    head = tl.program_id(0)
    group = head // SHARE
    d = tl.arange(0, D)
    q = tl.load(Q + head * D + d)
    peak = -float("inf")
    total = 0.0
    acc = tl.zeros((D,), dtype=tl.float32)
    for start in range(0, S, B):
        s = start + tl.arange(0, B)
        k = tl.load(K + (group * S + s)[:, None] * D + d[None, :], mask=(s < S)[:, None], other=0.0)
        score = tl.where(s < S, tl.sum(k * q[None, :], axis=1), -float("inf"))
        higher = tl.maximum(peak, tl.max(score, axis=0))
        fade = tl.exp(peak - higher)
        p = tl.exp(score - higher)
        v = tl.load(V + (group * S + s)[:, None] * D + d[None, :], mask=(s < S)[:, None], other=0.0)
        total = total * fade + tl.sum(p, axis=0)
        acc = fade * acc + tl.sum(p[:, None] * v, axis=0)
        peak = higher
    tl.store(O + head * D + d, acc / total)


def kernel(q, k, v):
    H, D = q.shape
    G, S, _ = k.shape
    o = torch.empty_like(q)
    decode[(H,)](q, k, v, o, S, H // G, D=D, B=16)
    return o
"""
SIZES = {"H": 6, "G": 3, "S": 40, "D": 16}


def test_heads_of_a_group_share_a_tile(is_right):
    (variant,) = variants(Tile(), DECODE, **SIZES)
    assert "head_group = tl.program_id(0) // tl.cdiv(SHARE, BLOCK_M)" in variant
    assert "group = head_group" in variant
    assert variant.count("tl.dot(") == 2
    assert is_right(variant, DECODE, **SIZES)


def test_heads_without_a_group_share_nothing():
    alone = DECODE.replace("group = head // SHARE", "group = head")
    assert not variants(Tile(), alone, **SIZES)


def test_a_flat_grid_has_groups_too(is_right):
    flat = (
        DECODE.replace("S, SHARE, D: tl", "S, HEADS, SHARE, D: tl")
        .replace("head = tl.program_id(0)", "pid = tl.program_id(0)\n    head = pid % HEADS")
        .replace("decode[(H,)](q, k, v, o, S,", "decode[(1 * H,)](q, k, v, o, S, H,")
    )
    variant = variants(Tile(), flat, **SIZES)[0]
    assert "head_group = tl.program_id(0) // tl.cdiv(SHARE, BLOCK_M)" in variant
    assert is_right(variant, flat, **SIZES)


@pytest.mark.slow
def test_a_split_rescales_the_parts_of_an_online_softmax(is_right):
    (variant,) = variants(Split(), DECODE, **SIZES)
    assert variant.count("tl.maximum(peak, ") == 2  # of trips, and of parts
    assert is_right(variant, DECODE, **SIZES)


@pytest.mark.slow
def test_split_parts_of_heads_form_tiles(is_right):
    split = rewritten(Split(), DECODE, **SIZES)
    variant = variants(Tile(), split, **SIZES)[0]
    assert "num_programs(0)" not in variant.split("def decode_parts")[1].split("@triton.jit")[0]
    assert is_right(variant, DECODE, **SIZES)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("acc = fade * acc", "acc = fade * fade * acc"),  # another power of it
        ("p = tl.exp(score - higher)", "p = tl.exp(score - 2 * higher)"),
        ("tl.sum(p[:, None] * v, axis=0)", "tl.sum(v, axis=0)"),  # relative to no maximum
        ("peak = higher", "peak = higher + 1"),
        ("tl.sum(p, axis=0)", "tl.max(p, axis=0) * peak"),
        ("acc / total)", "acc / total + start)"),  # what the last trip had
    ],
)
def test_what_does_not_rescale_alike_is_not_split(old, new):
    source = DECODE.replace(old, new)
    assert source != DECODE
    assert not variants(Split(), source, **SIZES)


THREE_AXES = """
def reference(x):
    return x.sum(2)


def inputs(B=2, H=3, S=40, D=16, device="cuda"):
    return (torch.randn(B, H, S, D, device=device),)


@triton.jit
def sums(x, out, H, S, D, BLOCK: tl.constexpr):
    d = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    at = x + (tl.program_id(2) * H + tl.program_id(1)) * S * D + d
    total = tl.zeros((BLOCK,), dtype=tl.float32)
    for _ in range(S):
        total += tl.load(at, mask=d < D, other=0.0)
        at += D
    tl.store(out + (tl.program_id(2) * H + tl.program_id(1)) * D + d, total, mask=d < D)


def kernel(x):
    B, H, S, D = x.shape
    out = torch.empty(B, H, D, device=x.device)
    sums[(triton.cdiv(D, 8), H, B)](x, out, H, S, D, BLOCK=8)
    return out
"""


AXES = {"B": 2, "H": 3, "S": 40, "D": 16}


def test_parts_share_the_last_of_three_axes():
    (variant,) = variants(Split(), THREE_AXES, **AXES)
    assert "B * SPLIT" in variant


@pytest.mark.slow
def test_parts_of_three_axes_are_right(is_right):
    (variant,) = variants(Split(), THREE_AXES, **AXES)
    assert is_right(variant, THREE_AXES, **AXES)


def test_a_sum_that_does_not_begin_at_zero_is_not_split():
    source = THREE_AXES.replace(
        "tl.zeros((BLOCK,), dtype=tl.float32)", "tl.full((BLOCK,), 1.0, tl.float32)"
    )
    assert source != THREE_AXES
    assert not variants(Split(), source, B=2, H=3, S=40, D=16)
