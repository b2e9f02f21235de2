"""Loops that begin at 0, and names that nobody reads, in canonical form."""

from __future__ import annotations

import pytest
from naive_kernels import MATMUL
from rewriting import HEADER, variants

from solkit.tuner.proposers.rewriter.canonical_form import canonical_form
from solkit.tuner.proposers.rewriter.flat_loops import FlatLoops
from solkit.tuner.proposers.rewriter.mask_removal import EvenSizes
from solkit.tuner.proposers.rewriter.row_tiles import Rows

GROUPS = """
TOLERANCE = {"rtol": 1e-3, "atol": 1e-3}


def reference(x):
    return x.sum((1, 2))


def inputs(B=3, R=6, C=10, device="cuda"):
    return torch.randn(B, R, C, device=device)


@triton.jit
def total(x, y, R, C, BLOCK: tl.constexpr):
    pid = tl.program_id(0)
    first = pid * R
    last = first + R
    cols = tl.arange(0, BLOCK)
    sums = tl.zeros((BLOCK,), tl.float32)
    seen = 0
    for r in range(first, last):
        base = r * C
        for o in range(0, C, BLOCK):
            sums += tl.load(x + base + o + cols, mask=o + cols < C, other=0.0)
            seen += C
    tl.store(y + pid, tl.sum(sums, axis=0))


def kernel(x):
    y = torch.empty(x.shape[0], device=x.device)
    total[(x.shape[0],)](x, y, x.shape[1], x.shape[2], BLOCK=32)
    return y
"""
SIZES = {"B": 3, "R": 6, "C": 10}
NEAR_MISSES = {
    "the end is computed twice": ("    cols =", "    last = last + 0\n    cols ="),
    "a parameter changes behind the end": ("    cols =", "    R = R + 1\n    cols ="),
    "the end is no sum of the start": ("last = first + R", "last = (pid + 1) * R"),
    "the loop changes its variable": (
        "        base = r * C",
        "        r = r * 1\n        base = r * C",
    ),
}


def test_a_loop_from_a_rows_start_begins_at_zero(is_right):
    form = canonical_form(HEADER + GROUPS)
    assert "range(0, R)" in form
    assert "r = first + r_trip" in form
    assert is_right(form, GROUPS, **SIZES)
    assert canonical_form(form) == form


@pytest.mark.parametrize("miss", NEAR_MISSES)
def test_a_loop_whose_length_is_not_sure_stays(miss):
    old, new = NEAR_MISSES[miss]
    assert old in GROUPS
    assert "range(first, last)" in canonical_form(HEADER + GROUPS.replace(old, new))


def test_a_step_stays_in_a_loop_that_begins_at_zero():
    strided = GROUPS.replace("range(first, last)", "range(first, last, 2)")
    assert "range(0, R, 2)" in canonical_form(HEADER + strided)


def test_a_count_that_nobody_reads_is_gone():
    assert "seen" not in canonical_form(HEADER + GROUPS)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("tl.sum(sums, axis=0))", "tl.sum(sums, axis=0) + 0 * seen)"),
        ("            seen += C", "            seen += tl.atomic_add(y, 0)"),
        ("    tl.store(y + pid", "    if seen > 0:\n        seen = 0\n    tl.store(y + pid"),
    ],
)
def test_a_count_that_something_may_need_stays(old, new):
    assert old in GROUPS
    assert "seen +=" in canonical_form(HEADER + GROUPS.replace(old, new))


def test_rows_from_a_start_become_one_row(is_right):
    form = canonical_form(HEADER + GROUPS).removeprefix(HEADER)
    (flat,) = variants(FlatLoops(), form, **SIZES)
    assert "range(0, R * C, BLOCK)" in flat
    assert is_right(flat, GROUPS, **SIZES)


@pytest.mark.parametrize(
    "end",
    [
        "tl.store(y + pid, tl.sum(sums * cols, axis=0))",  # lanes are columns
        "tl.store(y + pid, tl.max(sums, axis=0))",
        "tl.store(y + pid + cols, sums, mask=cols < 1)",
    ],
)
def test_rows_stay_where_lanes_of_their_sums_are_read(end):
    source = GROUPS.replace("tl.store(y + pid, tl.sum(sums, axis=0))", end)
    form = canonical_form(HEADER + source).removeprefix(HEADER)
    assert variants(FlatLoops(), form, **SIZES) == []


NEIGHBOURS = """
TOLERANCE = {"rtol": 1e-3, "atol": 1e-3}


def reference(p):
    near = ((p[:, None] - p[None]) ** 2).sum(-1) < 1.0
    near &= ~torch.eye(len(p), dtype=torch.bool, device=p.device)
    count = near.float().sum(1, keepdim=True)
    return near.float() @ p / count.clamp(min=1.0) + count


def inputs(N=40, device="cuda"):
    return torch.randn(N, 2, device=device)


@triton.jit
def neighbours(p, y, N, BLOCK: tl.constexpr):
    own = tl.program_id(0)
    axes = tl.arange(0, 2)
    at = tl.load(p + own * 2 + axes)
    mean = tl.zeros((2,), tl.float32)
    count = 0.0
    for o in range(0, N, BLOCK):
        i = o + tl.arange(0, BLOCK)
        other = (i < N) & (i != own)
        v = tl.load(p + i[:, None] * 2 + axes[None, :], mask=other[:, None], other=0.0)
        d = at[None, :] - v
        near = ((tl.sum(d * d, axis=1) < 1.0) & other).to(tl.float32)
        mean += tl.sum(v * near[:, None], axis=0)
        count += tl.sum(near, axis=0)
    mean = mean / tl.maximum(count, 1.0)
    tl.store(y + own * 2 + axes, mean + count)


def kernel(p):
    y = torch.empty_like(p)
    neighbours[(p.shape[0],)](p, y, p.shape[0], BLOCK=16)
    return y
"""


@pytest.mark.slow
def test_rows_share_a_load_of_which_each_masks_its_own_part(is_right):
    (rows,) = variants(Rows(), NEIGHBOURS, N=40)
    assert "axis=0) > 0" in rows  # what any row reads is read
    assert "tl.where(own_mask[:, None], mean, 0)" in rows  # a block of a row has two axes
    assert is_right(rows, NEIGHBOURS, N=40)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("other=0.0", "other=0.5"),
        ("other=0.0", "other=0.0, volatile=True"),
        ("other=0.0", "other=N"),
    ],
)
def test_rows_share_no_load_with_a_fill_or_word_of_its_own(old, new):
    assert variants(Rows(), NEIGHBOURS.replace(old, new), N=40) == []


COUNTED = """
TOLERANCE = {"rtol": 1e-3, "atol": 1e-3}


def reference(x):
    return x.sum(1)


def inputs(R=3, C=70, device="cuda"):
    return torch.randn(R, C, device=device)


@triton.jit
def total(x, y, C, WHOLE: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    sums = tl.zeros((BLOCK,), tl.float32)
    trips = tl.cdiv(C, BLOCK)
    for trip in range(0, trips):
        places = trip * BLOCK + cols
        sums += tl.load(x + row * C + places, mask=places < C, other=0.0)
    tl.store(y + row, tl.sum(sums, axis=0))


def kernel(x):
    y = torch.empty(x.shape[0], device=x.device)
    total[(x.shape[0],)](x, y, x.shape[1], WHOLE=True, BLOCK=32)
    return y
"""
COUNTS = {
    "tl.cdiv(C, BLOCK)": "range(0, tl.cdiv(C, BLOCK))",
    "(C + BLOCK - 1) // BLOCK": "range(0, (C + BLOCK - 1) // BLOCK)",
    "tl.cdiv(C, BLOCK) if WHOLE else tl.cdiv(row * BLOCK, BLOCK)": (
        "range(0, tl.cdiv((C) if WHOLE else (row * BLOCK), BLOCK))"
    ),
}
UNSURE_COUNTS = {
    "counted on": ("    for trip", "    trips += 0\n    for trip"),
    "its size changes": ("    for trip", "    C = C + 0\n    for trip"),
    "a number decides at run time": (
        "tl.cdiv(C, BLOCK)",
        "tl.cdiv(C, BLOCK) if row > 0 else tl.cdiv(C + 0, BLOCK)",
    ),
    "two blocks": ("tl.cdiv(C, BLOCK)", "tl.cdiv(C, BLOCK) if WHOLE else tl.cdiv(C, 32)"),
    "loaded": ("tl.cdiv(C, BLOCK)", "tl.cdiv(tl.load(x), BLOCK)"),
}


@pytest.mark.parametrize("count", COUNTS)
def test_a_named_count_of_blocks_is_one_of_its_loop(count, is_right):
    text = COUNTED.replace("tl.cdiv(C, BLOCK)", count)
    form = canonical_form(HEADER + text)
    assert COUNTS[count] in form
    assert "trips" not in form
    assert is_right(form, text, R=3, C=70)
    assert canonical_form(form) == form


@pytest.mark.parametrize("case", UNSURE_COUNTS)
def test_a_count_that_is_not_sure_stays_a_name(case):
    old, new = UNSURE_COUNTS[case]
    assert old in COUNTED
    assert "range(0, trips)" in canonical_form(HEADER + COUNTED.replace(old, new))


MOVING = """
TOLERANCE = {"rtol": 1e-3, "atol": 1e-3}


def reference(x):
    return x[:, 3:].sum(1)


def inputs(M=3, N=70, device="cuda"):
    return torch.randn(M, N, device=device)


@triton.jit
def total(x, y, N, BLOCK: tl.constexpr):
    row = x + tl.program_id(0) * N
    cols = tl.arange(0, BLOCK) + 3
    acc = tl.zeros((BLOCK,), tl.float32)
    for at in range(0, N, BLOCK):
        acc += tl.load(row + cols, mask=cols < N, other=0.0)
        cols += BLOCK
    tl.store(y + tl.program_id(0), tl.sum(acc, axis=0))


def kernel(x):
    y = torch.empty(x.shape[0], device=x.device)
    total[(x.shape[0],)](x, y, x.shape[1], BLOCK=16)
    return y
"""
BY_COUNT = MOVING.replace("range(0, N, BLOCK)", "range(0, tl.cdiv(N, BLOCK))")
LATE = MOVING.replace("range(0, N, BLOCK)", "range(16, N, BLOCK)").replace("3:]", "19:]")
LATE = LATE.replace("    acc = tl", "    cols += 16\n    acc = tl")


@pytest.mark.parametrize(
    ("source", "index"),
    [(MOVING, "at + cols"), (BY_COUNT, "at * BLOCK + cols"), (LATE, "at + cols")],
    ids=["by its step", "by a count", "from a later trip"],
)
def test_indices_that_masks_compare_follow_from_the_loop(source, index, is_right):
    form = canonical_form(HEADER + source)
    assert f"cols_at = {index}\n" in form
    assert "+= BLOCK" not in form
    assert is_right(form, source, M=3, N=70)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("cols += BLOCK", "cols += BLOCK * 2"),  # not as the loop counts
        ("        acc +=", "        cols += BLOCK\n        acc +="),  # twice a trip
        ("tl.sum(acc, axis=0)", "tl.sum(acc + cols, axis=0)"),  # read behind the loop
        ("    for at", "    acc += cols\n    for at"),  # or ahead of it
        ("        cols += BLOCK\n", "        cols += BLOCK\n        acc += cols\n"),
        ("range(0, N", "range(16, N"),  # trips begin elsewhere
    ],
)
def test_indices_that_something_else_reads_stay(old, new):
    assert MOVING.count(old) == 1
    assert "cols_at" not in canonical_form(HEADER + MOVING.replace(old, new))


def test_indices_that_grow_by_fractions_stay():
    source = BY_COUNT.replace("cols += BLOCK", "cols += 0.1")  # trips times 0.1 is another number
    assert "cols_at" not in canonical_form(HEADER + source)


RESTS = (
    MATMUL.replace("    for k0 in", "    i = tl.arange(0, BLOCK_K)\n    for k0 in")
    .replace("k = k0 + tl.arange(0, BLOCK_K)", "k = k0 + i\n        rest = K - k0")
    .replace("(k[None, :] < K)", "(i[None, :] < rest)")
    .replace("(k[:, None] < K)", "(i[:, None] < K - k0)")
)
COUNTED_RESTS = (
    RESTS.replace("range(0, K, BLOCK_K)", "range(0, tl.cdiv(K, BLOCK_K))")
    .replace("K - k0", "K - k0 * BLOCK_K")
    .replace("k = k0 + i", "k = k0 * BLOCK_K + i")
)


@pytest.mark.parametrize("source", [RESTS, COUNTED_RESTS])
def test_masks_by_what_is_left_compare_with_the_end(source, is_right):
    form = canonical_form(HEADER + source)
    assert "(i_at[None, :] < K)" in form
    assert "(i_at[:, None] < K)" in form
    assert variants(EvenSizes(), form.removeprefix(HEADER), M=40, N=24, K=32)
    assert is_right(form, source, M=40, N=24, K=33)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("rest = K - k0", "rest = K - pid_m"),  # no index of the loop
        ("rest = K - k0", "rest = K - k0\n        i = i + 0"),
        ("rest = K - k0", "rest = M - k0"),  # M may be a float, as far as the text says
        ("    i = tl.arange(0, BLOCK_K)\n", "    i = tl.arange(0, BLOCK_K) * 0.5\n"),
        ("        rest = K - k0\n", "        rest = K - k0\n        rest = rest + 1\n"),
    ],
)
def test_other_masks_stay(old, new):
    assert RESTS.count(old) == 1
    assert "i[None, :] < rest" in canonical_form(HEADER + RESTS.replace(old, new))
