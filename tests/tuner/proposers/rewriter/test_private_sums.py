"""Sums that programs keep before they add them with atomics, and loops that become axes."""

from __future__ import annotations

import pytest
from rewriting import variants

from solkit.tuner.proposers.rewriter.parallel_loops import ParallelLoops
from solkit.tuner.proposers.rewriter.private_sums import PrivateSums
from solkit.tuner.proposers.rewriter.row_tiles import Rows
from solkit.tuner.proposers.rewriter.vectorise import Vectorise

COUNTS = """
def reference(values):
    return torch.bincount(values.long(), minlength=20).int()


def inputs(n=300, device="cuda"):
    return (torch.randint(0, 20, (n,), dtype=torch.int32, device=device),)


@triton.jit
def count(values, counts, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    bins = tl.load(values + at, mask=at < n, other=0)
    tl.atomic_add(counts + bins, 1, mask=at < n)


def kernel(values):
    counts = torch.zeros(20, dtype=torch.int32, device=values.device)
    count[(triton.cdiv(values.numel(), 32),)](values, counts, values.numel(), BLOCK=32)
    return counts
"""


def test_bins_of_a_small_table_are_counted_before_atomics(is_right):
    (variant,) = variants(PrivateSums(), COUNTS, n=300)
    assert "tl.histogram(" in variant
    assert "mask=counts_sums_bins < 20" in variant
    assert is_right(variant, COUNTS, n=300)


def test_weights_are_summed_bin_by_bin(is_right):
    weighted = (
        COUNTS.replace("torch.bincount(values.long(), minlength=20).int()",
                       "torch.bincount(values.long(), values.float(), 20).float()")
        .replace("tl.atomic_add(counts + bins, 1,", "w = bins.to(tl.float32)\n"
                 "    tl.atomic_add(counts + bins, w,")
        .replace("torch.zeros(20, dtype=torch.int32", "torch.zeros((20,), dtype=torch.float32")
    )  # fmt: skip
    (variant,) = variants(PrivateSums(), weighted, n=300)
    assert "tl.histogram(" not in variant
    assert is_right(variant, weighted, n=300)


ROWS = """
def reference(values):
    rows = [torch.bincount(row[row < 20].long(), minlength=20) for row in values]
    counts = torch.stack(rows).int()
    counts[1:, 0] += (values[:-1] == 20).sum(1).int()  # one beyond a row is the next one's first
    return counts


def inputs(B=3, n=70, device="cuda"):
    values = torch.randint(0, 21, (B, n), dtype=torch.int32, device=device)
    values[-1].clamp_(max=19)
    return (values,)


@triton.jit
def count(values, counts, n, bins, BLOCK: tl.constexpr):
    row = tl.program_id(1)
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    code = tl.load(values + row * n + at, mask=at < n, other=0)
    tl.atomic_add(counts + row * bins + code, 1, mask=at < n)


def kernel(values):
    B, n = values.shape
    bins = 20
    counts = torch.zeros((B, bins), dtype=torch.int32, device=values.device)
    count[(triton.cdiv(n, 32), B)](values, counts, n, bins, BLOCK=32)
    return counts
"""


def test_bins_of_rows_are_counted_row_by_row_and_others_added_as_before(is_right):
    first, *_ = variants(PrivateSums(), ROWS, B=3, n=70)
    assert "tl.histogram(" in first
    assert is_right(first, ROWS, B=3, n=70)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("torch.zeros(20,", "torch.zeros(1048576,"),  # no small table
        ("dtype=torch.int32, device=values.device)\n    count",
         "dtype=torch.float64, device=values.device)\n    count"),
        ("bins = tl.load", "old = tl.load(counts)\n    bins = tl.load"),  # it is read meanwhile
        ("    bins = tl.load", "    if tl.program_id(0) > 5:\n        return\n    bins = tl.load"),
    ],
    ids=["large", "doubles", "read", "returns"],
)  # fmt: skip
def test_other_additions_stay(old, new):
    source = COUNTS.replace(old, new)
    assert source != COUNTS
    assert not variants(PrivateSums(), source, n=300)


BINS_OF_INPUT = COUNTS.replace("minlength=20", "minlength=bins").replace(
    "reference(values)", "reference(values, bins)"
).replace("def kernel(values):", "def kernel(values, bins):").replace(
    "torch.zeros(20,", "torch.zeros((bins,),"
).replace("inputs(n=300,", "inputs(n=300, bins=20,").replace(
    "dtype=torch.int32, device=device),)", "dtype=torch.int32, device=device), bins)"
)  # fmt: skip


@pytest.mark.parametrize("bins", [20, 5000])  # 5,000 are too many: the original counts them
def test_a_table_whose_size_only_the_launcher_knows_is_small_where_it_says_so(is_right, bins):
    (variant,) = variants(PrivateSums(), BINS_OF_INPUT, n=300, bins=bins)
    assert "if counts.shape[-1] <= 4096:" in variant
    assert "counts_sums_bins < n_counts_bins" in variant
    assert is_right(variant, BINS_OF_INPUT, n=300, bins=bins)


COLUMNS = """
TOLERANCE = {"rtol": 1e-4, "atol": 1e-4}


def reference(x):
    return x.sum(0)


def inputs(M=40, N=20, device="cuda"):
    return (torch.randn(M, N, device=device),)


@triton.jit
def add_row(x, out, N, BLOCK: tl.constexpr):
    cols = tl.arange(0, BLOCK)
    row = tl.load(x + tl.program_id(0) * N + cols, mask=cols < N, other=0.0)
    tl.atomic_add(out + cols, row, mask=cols < N)


def kernel(x):
    M, N = x.shape
    out = torch.zeros(N, device=x.device)
    add_row[(M,)](x, out, N, BLOCK=triton.next_power_of_2(N))
    return out
"""


def test_rows_at_the_same_place_are_summed_before_atomics(is_right):
    (variant,) = variants(PrivateSums(), COLUMNS, M=40, N=20)
    assert "min(M, PROGRAMS)" in variant
    assert is_right(variant, COLUMNS, M=40, N=20)


def test_several_rows_of_a_program_are_added_once(is_right):
    (variant,) = variants(Rows(), COLUMNS, M=40, N=20)
    assert "tl.atomic_add(out + cols, tl.sum(tl.where(" in variant
    assert is_right(variant, COLUMNS, M=40, N=20)


def test_a_maximum_of_several_rows_likewise(is_right):
    peaks = (
        COLUMNS.replace("x.sum(0)", "x.amax(0)")
        .replace("tl.atomic_add", "tl.atomic_max")
        .replace("torch.zeros(N,", "torch.full((N,), -9.0,")
    )
    (variant,) = variants(Rows(), peaks, M=40, N=20)
    assert "tl.max(tl.where(" in variant
    assert is_right(variant, peaks, M=40, N=20)


SMALL = """
TOLERANCE = {"rtol": 1e-3, "atol": 1e-3}


def reference(a, b):
    return a @ b


def inputs(B=2, n=3, m=4, device="cuda"):
    return torch.randn(B, n, m, device=device), torch.randn(B, m, n, device=device)


@triton.jit
def small(a, b, c, n, m):
    at = tl.program_id(0)
    a += at * n * m
    b += at * n * m
    for i in range(n):
        for j in range(n):
            s = 0.0
            for k in range(m):
                s += tl.load(a + i * m + k) * tl.load(b + k * n + j)
            tl.store(c + at * n * n + i * n + j, s)


def kernel(a, b):
    B, n, m = a.shape
    c = torch.empty(B, n, n, device=a.device)
    small[(B,)](a, b, c, n, m)
    return c
"""
FEW = {"B": 2, "n": 3, "m": 4}


def test_loops_over_a_small_matrix_become_a_tile_with_a_product(is_right):
    (variant,) = variants(ParallelLoops(), SMALL, **FEW)
    assert "if n <= 128:" in variant
    assert "tl.dot(" in variant
    assert is_right(variant, SMALL, **FEW)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("    for i in range(n):\n", "    s = 0.0\n    for i in range(n):\n"),  # handed on
        ("for i in range(n)", "for i in range(1, n)"),
        ("c + at * n * n + i * n + j, s)", "c + at * n * n, s)"),  # all at one place
        ("tl.load(a + i * m + k)", "tl.load(c + i * m + k)"),  # what another trip stored
    ],
    ids=["carried", "from one", "one place", "stored"],
)
def test_loops_that_depend_on_each_other_stay(old, new):
    source = SMALL.replace(old, new)
    assert source != SMALL
    assert not variants(ParallelLoops(), source, **FEW)


WINDOW = """
def reference(x):
    return x.cumsum(0) - torch.cat([torch.zeros(3, x.shape[1], device=x.device), x.cumsum(0)[:-3]])


def inputs(M=7, N=20, device="cuda"):
    return (torch.randint(0, 9, (M, N), device=device).float(),)


@triton.jit
def window(x, y, N, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    acc = tl.zeros((BLOCK,), tl.float32)
    for tap in range(3):
        at = row - tap
        if at >= 0:
            acc += tl.load(x + at * N + cols, mask=cols < N, other=0.0)
    tl.store(y + row * N + cols, acc, mask=cols < N)


def kernel(x):
    M, N = x.shape
    y = torch.empty_like(x)
    window[(M,)](x, y, N, BLOCK=triton.next_power_of_2(N))
    return y
"""


def test_a_condition_within_a_loop_masks_rows(is_right):
    (rows,) = variants(Rows(), WINDOW, M=7, N=20)
    assert is_right(rows, WINDOW, M=7, N=20)


def test_a_condition_within_a_loop_masks_a_block_of_its_trips(is_right):
    (blocks,) = variants(Vectorise(), WINDOW, M=7, N=20)
    assert is_right(blocks, WINDOW, M=7, N=20)


MEAN = """
def reference(x):
    return x.sum() / x.shape[0], torch.tensor(x.shape[0], dtype=torch.int32)


def inputs(M=40, N=20, device="cuda"):
    return (torch.randn(M, N, device=device),)


@triton.jit
def add_up(x, total, count, N, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    value = tl.sum(tl.load(x + row * N + cols, mask=cols < N, other=0.0), axis=0)
    tl.atomic_add(total, value)
    tl.atomic_add(count, 1)


def kernel(x):
    M, N = x.shape
    total = torch.zeros((), device=x.device)
    count = torch.zeros((), dtype=torch.int32, device=x.device)
    add_up[(M,)](x, total, count, N, BLOCK=triton.next_power_of_2(N))
    return total / M, count
"""


def test_rows_that_count_themselves_are_counted_together(is_right):
    first, *_ = variants(Rows(), MEAN, M=41, N=20)
    assert "tl.atomic_add(count, tl.sum(tl.where(row_mask, 1, 0), axis=0))" in first
    assert is_right(first, MEAN, M=41, N=20)


def test_what_else_rows_do_at_one_place_stays():
    for old, new in (
        ("tl.atomic_add(count, 1)", "tl.atomic_max(count, 1)"),
        ("tl.atomic_add(count, 1)", "tl.store(count, 1)"),
        ("tl.atomic_add(count, 1)", "tl.atomic_add(count, 1, mask=row < 5)"),
    ):
        assert not variants(Rows(), MEAN.replace(old, new), M=41, N=20)


TOTAL = """
@triton.jit
def total(x_ptr, out_ptr):
    x = tl.load(x_ptr + tl.program_id(0))
    tl.atomic_add(out_ptr, x)
    tl.atomic_add(out_ptr + 1, x.to(tl.float32) * x)
    tl.atomic_add(out_ptr + 2, 1)


def kernel(x):
    out = torch.zeros(3, device=x.device)
    total[(x.shape[0],)](x, out)
    return out
"""


def test_what_programs_add_to_one_place_is_summed_in_its_type():
    """Elements in fp16 would have a sum in fp16, which is infinite earlier."""
    (variant,) = variants(Rows(), TOTAL, M=64)
    sums = [line for line in variant.splitlines() if "tl.atomic_add(" in line]
    assert ".to(out_ptr.dtype.element_ty)" in sums[0]
    assert not any("element_ty" in line for line in sums[1:])
