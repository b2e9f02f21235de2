"""Rows that atomics add by an index are gathered; shares of a loop become programs."""

from __future__ import annotations

import pytest
from rewriting import FEW_SMS, HEADER, variants

from solkit.tuner.proposers.rewriter._parse import parse_kernel
from solkit.tuner.proposers.rewriter.canonical_form import canonical_form
from solkit.tuner.proposers.rewriter.row_gathers import GatherRows
from solkit.tuner.proposers.rewriter.single_trips import SingleTrips

SCATTER = """
def reference(x, index, rows):
    return torch.zeros(rows, x.shape[1], device=x.device).index_add_(0, index, 2 * x)


def inputs(M=21, N=16, device="cuda"):
    return torch.randn(M, N, device=device), torch.arange(M, device=device) * 5 % 7, 9


@triton.jit
def add_rows(x_ptr, out_ptr, index_ptr, M, T, N: tl.constexpr):
    first = tl.program_id(0)
    cols = tl.arange(0, N)
    for i in range(T):
        row = first * T + i
        to = tl.load(index_ptr + row, mask=row < M)
        x = 2 * tl.load(x_ptr + row * N + cols, mask=row < M, other=0.0)
        tl.atomic_add(out_ptr + to * N + cols, x)


def kernel(x, index, rows):
    M, N = x.shape
    out = torch.zeros(rows, N, dtype=torch.float32, device=x.device)
    T = triton.cdiv(M, 4)
    add_rows[(4,)](x, out, index, M, T, N=N)
    return out
"""
STRIDED = """
def reference(x):
    return x * 2


def inputs(M=21, N=16, device="cuda"):
    return (torch.randn(M, N, device=device),)


@triton.jit
def doubled(x_ptr, out_ptr, M, N: tl.constexpr):
    pid = tl.program_id(0)
    for row in range(pid, M, tl.num_programs(0)):
        at = row * N + tl.arange(0, N)
        tl.store(out_ptr + at, tl.load(x_ptr + at) * 2)


def kernel(x):
    out = torch.empty_like(x)
    doubled[(4,)](x, out, x.shape[0], N=x.shape[1])
    return out
"""


def test_rows_of_an_index_are_summed_without_atomics(is_right):
    source, _ = variants(GatherRows(), SCATTER)
    names = [launch.function.name for launch in parse_kernel(source).launches]
    assert names == ["add_rows_count", "add_rows_list", "add_rows_gather"]
    assert "out = torch.empty(" in source
    assert is_right(source, SCATTER)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("torch.zeros(rows, N, dtype", "torch.ones(rows, N, dtype"),
        (
            "dtype=torch.float32, device=x.device)\n    T",
            "dtype=torch.int32, device=x.device)\n    T",
        ),
        ("to * N + cols, x)", "to * N + cols, x, mask=cols < 9)"),
        ("to * N + cols, x)", "to * 2 * N + cols, x)"),
        ("to * N + cols, x)", "to * N + cols + 1, x)"),
        ("cols, x)", "cols, x, mask=to < tl.num_programs(0))"),
        ("cols, x)", "cols, x, mask=cols + to < N)"),
        ("tl.atomic_add", "tl.atomic_max"),
        ("x, out, index", "out, out, index"),
        ("add_rows[(4,)]", "add_rows[(4, 2)]"),
        ("cols, x)", "cols, x * tl.num_programs(0))"),
        ("row * N + cols, mask", "(tl.program_id(0) * T + i) * N + cols, mask"),
    ],
)
def test_other_atomics_stay(old, new):
    assert old in SCATTER
    assert not variants(GatherRows(), SCATTER.replace(old, new))


@pytest.mark.parametrize("source", [SCATTER, STRIDED])
def test_each_trip_is_a_program(source, is_right):
    (single,) = variants(SingleTrips(), source, FEW_SMS)
    assert "for " not in single.split("@triton.jit")[1].split("def kernel")[0]
    assert is_right(single, source)


@pytest.mark.parametrize(
    ("source", "old", "new"),
    [
        (SCATTER, "row = first * T + i", "row = first * T + i + 0 * first"),
        (
            SCATTER,
            "cols = tl.arange(0, N)",
            "cols = tl.arange(0, N)\n    M = M + tl.load(index_ptr)",
        ),
        (SCATTER, "tl.atomic_add(", "cols = cols + 0\n        tl.atomic_add("),
        (STRIDED, "tl.load(x_ptr + at) * 2", "tl.load(x_ptr + at) * 2 + pid"),
        (STRIDED, "tl.num_programs(0)):", "2):"),
        (STRIDED, "tl.load(x_ptr + at) * 2", "tl.load(x_ptr + at) * tl.program_id(0)"),
        (STRIDED, "pid = tl.program_id(0)", "pid = tl.program_id(0)\n    x_ptr += pid"),
        (STRIDED, "at = row * N", "at = row % 8 * N"),  # the last trip's stays
        (STRIDED, "at = row * N +", "at ="),
        (STRIDED, "(x, out, x.shape", "(out[4:], out, x.shape"),
        (STRIDED, "tl.store(out_ptr + at,", "k = tl.atomic_add(out_ptr + at,"),
        (STRIDED, "tl.store(", "tl.atomic_xchg("),
    ],
)
def test_other_shares_stay(source, old, new):
    assert old in source
    assert not variants(SingleTrips(), source.replace(old, new))
    assert parse_kernel(HEADER + source.replace(old, new)) is not None


READ = (
    SCATTER.replace("index_add_(0, index, 2 * x)", "index_add_(0, index, 2 * x).half()")
    .replace(
        "    return out\n",
        "    narrow = torch.empty(rows, N, dtype=torch.float16, device=x.device)\n",
    )
    .replace(
        "\n\ndef kernel",
        "\n\n@triton.jit\ndef cast(x_ptr, out_ptr, M, N: tl.constexpr):\n"
        "    row = tl.program_id(axis=0)\n    at = row * N + tl.arange(0, N)\n"
        "    total = tl.load(x_ptr + at, mask=row < M)\n"
        "    tl.store(out_ptr + row * N + tl.arange(0, N), total, mask=row < M)"
        "\n\n\ndef kernel",
    )
) + "    cast[(rows + 3,)](out, narrow, rows, N=N)\n    return narrow\n"


def test_a_launch_that_reads_the_sums_by_rows_gets_them_in_registers(is_right):
    source, _ = gathered(READ)
    names = [launch.function.name for launch in parse_kernel(source).launches]
    assert names == ["add_rows_count", "add_rows_list", "add_rows_gather_cast"]
    assert is_right(source, READ)


def test_sums_that_are_returned_too_go_to_memory():
    source = READ.replace("return narrow", "return narrow, out")
    source, _ = gathered(source)
    assert [launch.function.name for launch in parse_kernel(source).launches][-1] == "cast"


def test_trips_along_a_later_axis_are_programs_where_a_grid_may_have_as_many():
    source = STRIDED.replace("num_programs(0)", "num_programs(1)")
    source = source.replace("program_id(0)", "program_id(1)").replace("[(4,)]", "[(1, 4)]")
    (variant,) = variants(SingleTrips(), source)
    assert "if x.shape[0] <= 65535:\n        doubled_single[(1, x.shape[0])]" in variant
    assert "else:\n        doubled[(1, 4)]" in variant


MEANS = """
def reference(x, index, rows):
    total = torch.zeros(rows, x.shape[1], device=x.device).index_add_(0, index, x)
    return total / torch.bincount(index, minlength=rows).clamp(min=1)[:, None]


def inputs(M=21, N=13, device="cuda"):
    return torch.randn(M, N, device=device), torch.arange(M, device=device) * 5 % 7, 9


@triton.jit
def add_rows(x_ptr, out_ptr, count_ptr, index_ptr, N, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    to = tl.load(index_ptr + row)
    cols = tl.arange(0, BLOCK)
    inside = cols < N
    x = tl.load(x_ptr + row * N + cols, mask=inside)
    tl.atomic_add(out_ptr + to * N + cols, x, mask=inside)
    tl.atomic_add(count_ptr + to, 1.0)


@triton.jit
def divide(out_ptr, count_ptr, mean_ptr, N, BLOCK: tl.constexpr):
    to = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    total = tl.load(out_ptr + to * N + cols, mask=cols < N)
    count = tl.load(count_ptr + to)
    tl.store(mean_ptr + to * N + cols, total / tl.maximum(count, 1.0), mask=cols < N)


def kernel(x, index, rows):
    M, N = x.shape
    out = torch.zeros((rows, N), dtype=torch.float32, device=x.device)
    count = torch.zeros((rows,), dtype=torch.float32, device=x.device)
    mean = torch.empty_like(out)
    BLOCK = triton.next_power_of_2(N)
    add_rows[(M,)](x, out, count, index, N, BLOCK=BLOCK)
    divide[(rows,)](out, count, mean, N, BLOCK=BLOCK)
    return mean
"""
COLUMNS = (
    MEANS.replace("cols = tl.arange(0, BLOCK)\n    inside", "cols = FIRST\n    inside")
    .replace("FIRST", "tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)")
    .replace("    tl.atomic_add(count_ptr + to, 1.0)\n", "")
    .replace("add_rows[(M,)](", "add_rows[(M, triton.cdiv(N, 8))](")
    .replace("out, count, index, N, BLOCK=BLOCK", "out, count, index, N, BLOCK=8")
    .replace(" / torch.bincount(index, minlength=rows).clamp(min=1)[:, None]", "")
)


def gathered(source):
    return variants(GatherRows(), canonical_form(HEADER + source).removeprefix(HEADER))


@pytest.mark.parametrize(
    ("source", "last"), [(MEANS, "add_rows_gather_divide"), (COLUMNS, "divide")]
)
def test_rows_with_their_count_and_columns_of_rows_are_gathered(source, last, is_right):
    whole, _ = gathered(source)
    launched = [launch.function.name for launch in parse_kernel(whole).launches]
    assert launched[:2] == ["add_rows_count", "add_rows_list"]
    assert launched[-1] == last
    assert "atomic_add(out_ptr" not in whole
    assert is_right(whole, source)


@pytest.mark.parametrize(
    ("source", "old", "new"),
    [
        (MEANS, "x, mask=inside)\n    tl.a", "x, mask=cols < N - 1)\n    tl.a"),
        (MEANS, "count_ptr + to, 1.0", "count_ptr + to % 2, 1.0"),
        (MEANS, "count_ptr + to, 1.0", "out_ptr + to, 1.0"),
        (MEANS, "count_ptr + to, 1.0", "count_ptr + row, 1.0"),
        (COLUMNS, "x, mask=inside)\n", "x, mask=inside)\n    tl.atomic_add(count_ptr + to, 1.0)\n"),
        (COLUMNS, "tl.program_id(1) * BLOCK", "tl.program_id(1) * 4"),
    ],
)
def test_other_additions_next_to_rows_stay(source, old, new):
    assert source.count(old) == 1
    assert not gathered(source.replace(old, new))


def test_columns_that_no_program_has_stay_zero():
    whole, _ = gathered(MEANS.replace("N, BLOCK=BLOCK)\n    divide", "N, BLOCK=8)\n    divide"))
    assert "out = torch.zeros(" in whole


LOOPED = (
    COLUMNS.replace(
        "    cols = tl.program_id(1) * BLOCK + tl",
        "    for at in range(0, N, BLOCK):\n        cols = at + tl",
    )
    .replace("    inside = cols < N\n    x =", "        inside = cols < N\n        x =")
    .replace("    tl.atomic_add(out", "        tl.atomic_add(out")
    .replace("add_rows[(M, triton.cdiv(N, 8))](", "add_rows[(M,)](")
)
TILED = (
    COLUMNS.replace(
        "    row = tl.program_id(0)\n",
        "    pid = tl.program_id(0)\n    row = pid * BLOCK + tl.arange(0, BLOCK)\n",
        1,
    )
    .replace("index_ptr, N, BLOCK", "index_ptr, M, N, BLOCK")
    .replace("count, index, N, BLOCK=8", "count, index, M, N, BLOCK=8")
    .replace("tl.load(index_ptr + row)", "tl.load(index_ptr + row, mask=row < M, other=0)")
    .replace("inside = cols < N\n    x", "inside = (row[:, None] < M) & (cols[None, :] < N)\n    x")
    .replace("row * N + cols, mask=inside", "row[:, None] * N + cols[None, :], mask=inside")
    .replace("out_ptr + to * N + cols, x", "out_ptr + to[:, None] * N + cols[None, :], x")
    .replace("add_rows[(M, ", "add_rows[(triton.cdiv(M, 8), ")
)


@pytest.mark.parametrize("source", [LOOPED, TILED])
def test_rows_of_tiles_and_columns_of_loops_are_gathered(source, is_right):
    whole, _ = gathered(source)
    assert "_gather[" in whole
    assert is_right(whole, source)


@pytest.mark.parametrize(
    ("source", "old", "new"),
    [
        (LOOPED, "range(0, N, BLOCK)", "range(8, N, BLOCK)"),
        (TILED, "mask=row < M, other=0)", "mask=row < M - 1, other=0)"),
        (TILED, "(row[:, None] < M) & (cols", "(row[:, None] >= 0) & (cols"),
        (
            TILED,
            "cols[None, :], mask=inside)\n    tl.a",
            "cols[None, :], mask=inside)\n    x = tl.flip(x)\n    tl.a",
        ),
        (TILED, "row = pid * BLOCK +", "row = pid * 4 +"),
        (TILED, "row[:, None] * N + cols[None, :], mask", "row * N + cols[None, :], mask"),
    ],
)
def test_tiles_and_loops_of_other_forms_stay(source, old, new):
    assert source.count(old) == 1
    assert not gathered(source.replace(old, new))


SELECTED = """
def reference(x, index, rows):
    keep = (index != 5) & (index >= 0)
    total = torch.zeros(rows, x.shape[1], device=x.device).index_add_(0, index[keep], x[keep])
    return (2 * total + torch.arange(x.shape[1], device=x.device)).half()


def inputs(M=21, N=13, device="cuda"):
    return torch.randn(M, N, device=device), torch.arange(M, device=device) * 5 % 8 - 1, 9


@triton.jit
def add_rows(x_ptr, out_ptr, index_ptr, N, stride, pad, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    to = tl.load(index_ptr + row)
    cols = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = (cols < N) & (to != pad) & (to >= 0)
    x = tl.load(x_ptr + row * N + cols, mask=inside)
    tl.atomic_add(out_ptr + to * stride + cols, x, mask=inside)


@triton.jit
def scaled(x_ptr, y_ptr, N, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    y = tl.load(x_ptr + i, mask=i < n) * 2 + i % N
    tl.store(y_ptr + i, y.to(tl.float16), mask=i < n)


def kernel(x, index, rows):
    M, N = x.shape
    out = torch.zeros((rows, N), dtype=torch.float32, device=x.device)
    half = torch.empty((rows, N), dtype=torch.float16, device=x.device)
    add_rows[(M, triton.cdiv(N, 8))](x, out, index, N, out.stride(0), 5, BLOCK=8)
    scaled[(triton.cdiv(rows * N, 32),)](out, half, N, rows * N, BLOCK=32)
    return half
"""
BOTH = " & (to != pad) & (to >= 0)"
LOAD = "    to = tl.load(index_ptr + row)\n"
ADD = "    tl.atomic_add(out_ptr + to * stride + cols, x, mask=inside)\n"
LEAVING = SELECTED.replace(BOTH, "").replace(
    LOAD, LOAD + "    if to == pad or to < 0:\n        return\n"
)
INSIDE = SELECTED.replace(BOTH, "").replace(ADD, "    if to != pad and to >= 0:\n    " + ADD)


@pytest.mark.parametrize("source", [SELECTED, LEAVING, INSIDE])
def test_rows_are_left_out_and_a_flat_launch_takes_the_sums_in_registers(source, is_right):
    plain, several = gathered(source)
    names = [launch.function.name for launch in parse_kernel(plain).launches]
    assert names == ["add_rows_count", "add_rows_list", "add_rows_gather"]
    assert "loop_unroll_factor" in several
    assert "loop_unroll_factor" not in plain
    assert is_right(several, source)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (LOAD, "    if row > pad:\n        return\n" + LOAD),  # no row is loaded there
        (BOTH, " & (cols != pad)"),
        (BOTH, " & (tl.load(x_ptr + row * N) > 0)"),
        ("out.stride(0), 5", "N + 1, 5"),
    ],
)
def test_other_choices_of_rows_stay(old, new):
    assert SELECTED.count(old) == 1
    assert not gathered(SELECTED.replace(old, new))


def test_zeros_that_sums_do_not_cover_reach_a_launch_behind():
    (whole, _) = gathered(SELECTED.replace("triton.cdiv(N, 8))](", "1)]("))
    assert parse_kernel(whole).launches[-1].function.name == "scaled"
