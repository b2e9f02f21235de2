"""Trips that no mask cuts run without comparisons, ahead of the others."""

from __future__ import annotations

import pytest
from rewriting import HEADER, variants
from test_loop_ends import CAUSAL, MASK

from solkit.tuner.proposers.rewriter.full_trips import FullTrips

BOTH = 'tl.where((rows[:, None] >= cols[None, :]) & (cols < S)[None, :], scores, float("-inf"))'


def loops(source):
    """The loops of the first variant, each as its range and its trip."""
    (variant,) = variants(FullTrips(), source)
    body = variant.split("    for start in range(")[1:]
    return [part.split("):\n", 1) for part in body], variant


def test_keys_below_the_diagonal_are_not_compared(is_right):
    (first, rest), variant = loops(CAUSAL)
    assert (first[0], rest[0]) == ("0, full, BLOCK", "full, S, BLOCK")
    assert ">=" not in first[1]
    assert "mask=" not in first[1]
    assert MASK in rest[1]
    assert rest[1].count("mask=") == 3
    assert "pid * BLOCK) + 0 + 1), S) // BLOCK * BLOCK, 0)" in variant
    assert is_right(variant, CAUSAL, S=70)


@pytest.mark.parametrize(
    "mask",
    [
        BOTH,
        'tl.where(rows[:, None] - cols[None, :] >= 0, scores, float("-inf"))',
        'tl.where(cols[None, :] <= rows[:, None], scores, float("-inf"))',
        'tl.where(cols.to(tl.int32)[None, :] > rows[:, None], float("-inf"), scores)',
        "tl.where((cols >= S)[None, :] | (rows[:, None] < cols[None, :]), -1e9, scores)",
    ],
)
def test_a_mask_may_be_written_otherwise(mask):
    (first, _), _ = loops(CAUSAL.replace(MASK, mask))
    assert "tl.where" not in first[1]


def test_a_mask_that_is_added_adds_nothing(is_right):
    added = 'scores\n        scores += tl.where(rows[:, None] >= cols[None, :], 0, float("-inf"))'
    source = CAUSAL.replace(MASK, added)
    (first, _), variant = loops(source)
    assert "scores += 0\n" in first[1]
    assert is_right(variant, source, S=40)


@pytest.mark.parametrize(
    "mask",
    [
        'tl.where(cols[None, :] < S, scores, float("-inf"))',  # the same for all rows
        'tl.where(rows[:, None] <= cols[None, :], scores, float("-inf"))',  # the last trips are
        'tl.where(rows[:, None] * cols[None, :] < 9, scores, float("-inf"))',
        'tl.where(rows[:, None] + start >= cols[None, :], scores, float("-inf"))',
    ],
)
def test_a_loop_whose_trips_all_compare_stays(mask):
    assert not variants(FullTrips(), CAUSAL.replace(MASK, mask))


def test_a_comparison_that_is_a_number_stays():
    source = CAUSAL.replace(MASK, f"{MASK} + 0.0 * (rows[:, None] >= cols[None, :])")
    (first, _), variant = loops(source)
    assert "+ 0.0 * (rows[:, None] >= cols[None, :])" in first[1]
    assert HEADER in variant


BIAS = "b = tl.load(K + cols, mask=cols < S, other=0.0)"
ROW = "tl.where(rows[:, None] >= cols[None, :], b, 0.0)"


@pytest.mark.parametrize(
    "lines",
    [
        f"{BIAS}[None, :]\n        b = {ROW}\n        top += tl.sum(b, 0)",
        f"b = tl.load(K + start)\n        top += tl.sum({ROW}, 1)",
        "b = (rows[:, None] >= cols[None, :]) & (cols % 3 == 0)[None, :]\n"
        "        top += tl.sum(b.to(tl.int32), 0)",
        "b = tl.load(K + cols[None, :], mask=rows[:, None] >= cols[None, :], other=0.0)\n"
        "        top += tl.sum(b, 0)",
    ],
)
def test_what_would_have_fewer_elements_stays(lines):
    source = CAUSAL.replace("        top = new\n", f"        top = new\n        {lines}\n")
    assert lines in source
    assert not variants(FullTrips(), source)


def test_a_trip_whose_columns_reach_into_the_next_stays():
    wide = CAUSAL.replace("cols = start + tl.arange(0, BLOCK)", "cols = start + tl.arange(0, WIDE)")
    wide = wide.replace("BLOCK: tl.constexpr", "BLOCK: tl.constexpr, WIDE: tl.constexpr")
    assert not variants(FullTrips(), wide.replace("BLOCK=16", "BLOCK=16, WIDE=32"))
