"""Extrema of single elements, with their places, become extrema of blocks."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from rewriting import variants

from solkit.tuner.proposers.rewriter.vectorise import Vectorise

LARGEST = """
def reference(x):
    return x.argmax(1)


def inputs(M=3, N=70, device="cuda"):
    return torch.randint(-4, 5, (M, N), device=device).float()


@triton.jit
def largest(x_ptr, y_ptr, N):
    row = tl.program_id(0) * N
    best = tl.load(x_ptr + row)
    place = 0
    for i in range(1, N):
        x = tl.load(x_ptr + row + i)
        better = x > best
        place = tl.where(better, i, place)
        best = tl.where(better, x, best)
    tl.store(y_ptr + tl.program_id(0), place)


def kernel(x):
    y = torch.empty(x.shape[0], dtype=torch.int64, device=x.device)
    largest[(x.shape[0],)](x, y, x.shape[1])
    return y
"""
CHOICE = LARGEST[LARGEST.index("        better =") : LARGEST.index("    tl.store")]
BRANCH = "        if x < best:\n            best = x\n            place = i\n"
LEAST = LARGEST.replace("argmax", "argmin").replace(CHOICE, BRANCH)
SIZES = {"M": 3, "N": 70}
COLUMNS = (
    LARGEST.replace("x.argmax(1)", "2 * x.argmax(0) + 1")
    .replace("    row = tl.program_id(0) * N\n", "    cols = tl.arange(0, 4)\n")
    .replace("(x_ptr + row)", "(x_ptr + cols, mask=cols < M, other=0.0)")
    .replace("(x_ptr + row + i)", "(x_ptr + i * M + cols, mask=cols < M, other=0.0)")
    .replace("place = 0", "place = tl.full((4,), 1, tl.int32)")
    .replace("(better, i, place)", "(better, 2 * i + 1, place)")
    .replace("x_ptr, y_ptr, N", "x_ptr, y_ptr, M, N")
    .replace("y_ptr + tl.program_id(0), place", "y_ptr + cols, place, mask=cols < M")
    .replace("empty(x.shape[0]", "empty(x.shape[1]")
    .replace("[(x.shape[0],)](x, y, x.shape[1])", "[(1,)](x, y, x.shape[1], x.shape[0])")
    .replace("(M, N), device", "(N, M), device")
)
WITH_ITS_WEIGHT = (
    LARGEST.replace("x.argmax(1)", "x.gather(1, (x % 3).argmax(1)[:, None])[:, 0].long() + 0")
    .replace("best = tl.load(x_ptr + row)", "best = -1.0")
    .replace("range(1, N)", "range(N)")
    .replace("place = 0", "place = 0.0")
    .replace("better = x > best", "rest = x - 3 * tl.floor(x / 3)\n        better = rest > best")
    .replace("(better, i, place)", "(better, x, place)")
    .replace("(better, x, best)", "(better, rest, best)")
)


@pytest.mark.quick("largest")
@pytest.mark.parametrize(
    "source",
    [
        LARGEST,
        LEAST,
        COLUMNS,
        WITH_ITS_WEIGHT,
    ],
    ids=["largest", "least, by a branch", "of columns", "with another value"],
)
def test_the_first_of_equal_extrema_counts(source: str, is_right: Callable[..., bool]) -> None:
    (variant,) = variants(Vectorise(), source, **SIZES)
    assert "return_indices=True" in variant
    assert is_right(variant, source, **SIZES)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("x > best", "x >= best"),  # the last of equal ones
        ("x > best", "x > place"),
        ("    tl.store(", "        tl.store(y_ptr + i, best)\n    tl.store("),
        ("(better, i, place)", "(better, i + place, place)"),
        ("better, x, best", "better, x + 1, best"),
        ("x > best", "(x > best) & (x < 1)"),  # not of all elements
        ("x > best", "x > best and i < N - 1"),
        ("(better, i, place)", "(better & (i > 2), i, place)"),
        ("(better, x, best)", "(x <= best, best, x)"),  # which takes what is no number
    ],
)
def test_other_choices_stay_one_a_trip(old: str, new: str) -> None:
    assert LARGEST.count(old) == 1
    assert not variants(Vectorise(), LARGEST.replace(old, new), **SIZES)
