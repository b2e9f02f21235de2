"""Loops around loops over rows that become one loop over all elements."""

from __future__ import annotations

import pytest
from rewriting import HEADER, rewritten, variants

from solkit.tuner.proposers.rewriter.flat_loops import FlatLoops
from solkit.tuner.proposers.rewriter.one_pass import OnePass

GROUPS = """
TOLERANCE = {"rtol": 1e-3, "atol": 1e-3}


def reference(x, w):
    B, C, N = x.shape
    v = x.reshape(B, 2, C // 2 * N)
    v = (v - v.mean(-1, keepdim=True)) / v.var(-1, unbiased=False, keepdim=True).sqrt()
    return v.reshape(B, C, N) * w[:, None]


def inputs(B=2, C=6, N=21, device="cuda"):
    return torch.randn(B, C, N, device=device) + 3.0, torch.rand(C, device=device)


@triton.jit
def normalise(x, w, y, C, N, rows, BLOCK: tl.constexpr):
    first = tl.program_id(0) * C + tl.program_id(1) * rows
    cols = tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), tl.float32)
    for r in range(rows):
        p = x + (first + r) * N
        for o in range(0, N, BLOCK):
            i = o + cols
            total += tl.load(p + i, mask=i < N, other=0.0)
    mean = tl.sum(total, axis=0) / (rows * N)
    squares = 0.0
    for r in range(rows):
        for o in range(0, N, BLOCK):
            v = tl.load(x + (first + r) * N + o + cols, mask=o + cols < N, other=0.0)
            d = tl.where(o + cols < N, v - mean, 0.0)
            squares += tl.sum(d * d, axis=0)
    deviation = tl.sqrt(squares / (rows * N))
    q = y + first * N
    for r in range(rows):
        factor = tl.load(w + tl.program_id(1) * rows + r)
        for k in range(tl.cdiv(N, BLOCK)):
            at = k * BLOCK + cols
            m = at < N
            v = tl.load(x + (first + r) * N + at, mask=m, other=0.0)
            tl.store(q + at, (v - mean) / deviation * factor, mask=m)
        q += N


def kernel(x, w):
    B, C, N = x.shape
    y = torch.empty_like(x)
    normalise[(B, 2)](x, w, y, C, N, C // 2, BLOCK=16)
    return y
"""
SIZES = {"B": 2, "C": 6, "N": 21}


def test_rows_behind_each_other_are_one(is_right):
    (flat,) = variants(FlatLoops(), GROUPS, **SIZES)
    body = flat.split("def normalise")[1].split("def kernel")[0]
    assert body.count("for ") == 3
    assert body.count("//") == 1  # only the weights need to know the row
    assert is_right(flat, GROUPS, **SIZES)


def test_their_moments_are_taken_in_one_pass_then(is_right):
    assert not variants(OnePass(), GROUPS, **SIZES)
    (once,) = variants(OnePass(), rewritten(FlatLoops(), GROUPS, **SIZES), **SIZES)
    assert once.split("def kernel")[0].count("for ") == 2
    assert is_right(once, GROUPS, **SIZES)


LEAST = """
def reference(x):
    return x.amin((1, 2)), x.amax((1, 2))


def inputs(B=3, M=5, N=21, device="cuda"):
    return (torch.randn(B, M, N, device=device),)


@triton.jit
def extrema(x, low, high, M, N, s, BLOCK: tl.constexpr):
    b = tl.program_id(0).to(tl.int64)
    least = float("inf")
    most = tl.full((BLOCK,), float("-inf"), tl.float32)
    for m in range(M):
        for o in range(0, N, BLOCK):
            i = o + tl.arange(0, BLOCK)
            v = tl.load(x + b * M * s + m * s + i, mask=i < N, other=float("inf"))
            least = tl.minimum(least, tl.min(v, axis=0))
            most = tl.maximum(most, tl.where(i < N, v, float("-inf")))
    tl.store(low + b, least)
    tl.store(high + b, tl.max(most, axis=0))


def kernel(x):
    B, M, N = x.shape
    low, high = torch.empty(B, device=x.device), torch.empty(B, device=x.device)
    extrema[(B,)](x, low, high, M, N, x.stride(1), BLOCK=16)
    return low, high
"""
FEW = {"B": 3, "M": 5, "N": 21}


def test_extrema_of_rows_that_may_be_apart_have_the_row_as_a_quotient(is_right):
    (flat,) = variants(FlatLoops(), LEAST, **FEW)
    assert "m = whole // N" in flat
    assert is_right(flat, LEAST, **FEW)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('other=float("inf"))', "other=0.0)"),  # it counts beyond the row
        ("mask=i < N, other", "mask=i < M, other"),
        ("            least =", "            v = v + tl.sum(v) * m\n            least ="),
        ("tl.minimum(least, tl.min(v, axis=0))", "least * 0.5 + tl.min(v, axis=0)"),
        ("for m in range(M)", "for m in range(1, M)"),
        ("tl.store(low + b, least)", "tl.store(low + b, least + tl.sum(v))"),  # of the last trip
        ("tl.store(low + b, least)", "tl.store(low + b, least + m)"),
        ("        for o in", "        N = N - m\n        for o in"),
        ("i = o + tl.arange(0, BLOCK)", "i = o + tl.arange(0, BLOCK) + 0 * o"),
    ],
    ids=["fill", "mask", "mixed", "scaled", "start", "last", "row", "size", "index"],
)
def test_other_loops_stay(old, new):
    assert old in LEAST
    assert not variants(FlatLoops(), LEAST.replace(old, new), **FEW)


def test_offsets_in_64_bits_keep_their_terms():
    (flat,) = variants(FlatLoops(), LEAST.replace("* s", "* N"), **FEW)
    assert "x + b * M * N + m * N + element" in flat.removeprefix(HEADER)


TWICE = """
TOLERANCE = {"rtol": 1e-3, "atol": 1e-3}


def reference(x):
    return x.sum(1), (x * x).sum(1)


def inputs(M=3, N=70, device="cuda"):
    return torch.randn(M, N, device=device)


@triton.jit
def sums(x, y, z, N, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), tl.float32)
    for at in range(0, N, BLOCK):
        v = tl.load(x + row * N + at + cols, mask=at + cols < N, other=0.0)
        total += v
    place = y + row
    tl.store(place, tl.sum(total, axis=0))
    squares = tl.zeros((BLOCK,), tl.float32)
    for at in range(0, N, BLOCK):
        v = tl.load(x + row * N + at + cols, mask=at + cols < N, other=0.0)
        squares += v * v
    tl.store(z + row, tl.sum(squares, axis=0))


def kernel(x):
    y, z = torch.empty(x.shape[0], device=x.device), torch.empty(x.shape[0], device=x.device)
    sums[(x.shape[0],)](x, y, z, x.shape[1], BLOCK=16)
    return y, z
"""


def test_a_store_between_loops_waits_for_the_second(is_right):
    (variant,) = variants(OnePass(), TWICE)
    assert variant.count("for at in") == 1
    assert is_right(variant, TWICE)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("](x, y, z,", "](x, x, z,"),
        ("squares += v * v", "squares += v * tl.load(y + row)"),
        ("squares = tl.zeros((BLOCK,), tl.float32)", "squares = cols * tl.load(y + row)"),
        ("    squares = ", "    tl.debug_barrier()\n    squares = "),
        ("    squares = ", "    place = z + row\n    squares = "),
    ],
)
def test_a_store_that_something_between_or_the_second_loop_needs_stays(old, new):
    assert TWICE.count(old) == 1
    joined = variants(OnePass(), TWICE.replace(old, new))
    assert not joined or joined[0].index("tl.store(place") < joined[0].index("place = z + row")
