"""Loops that hand nothing on are shared by programs along a new axis of the grid."""

from __future__ import annotations

import pytest
from rewriting import FEW_SMS, variants

from solkit.tuner.proposers.rewriter.split_loops import SharedLoops

COLUMNS = """
def reference(x, y):
    return x * 2 + y[:, :1]


def inputs(M=5, N=24, device="cuda"):
    return torch.randn(M, N, device=device), torch.randn(M, N, device=device)


@triton.jit
def doubled(x_ptr, y_ptr, out_ptr, N, B: tl.constexpr):
    row = tl.program_id(0) * N
    first = tl.load(y_ptr + row)
    cols = tl.arange(0, B)
    for start in range(0, tl.cdiv(N, B)):
        mask = cols < N
        x = tl.load(x_ptr + row + cols, mask=mask)
        tl.store(out_ptr + row + cols, x * 2 + first, mask=mask)
        cols = cols + B


def kernel(x, y):
    out = torch.empty_like(x)
    doubled[(x.shape[0],)](x, y, out, x.shape[1], B=8)
    return out
"""


def test_programs_share_a_loop_whose_columns_move_on(is_right):
    (source,) = variants(SharedLoops(), COLUMNS, FEW_SMS)
    assert "program_id(1)" in source
    assert "SPLIT)" in source
    assert is_right(source, COLUMNS)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("out = torch.empty_like(x)", "out = y"),  # another part would store what is loaded ahead
        ("out_ptr + row + cols, x", "out_ptr + row + cols % 8, x"),
        ("cols = cols + B", "cols = cols + B\n        first = first * 2"),
        ("cols = cols + B", "cols = cols + B // 2"),  # half of a block is stored again
        ("2 + first, mask=mask)", "2, mask=mask)\n        tl.store(out_ptr + row + cols + B, x)"),
        ("doubled[(x.shape[0],)](x,", "doubled[(x.shape[0],)](out.view(-1)[8:],"),
        ("cols = cols + B", "cols = cols + B\n        tl.store(out_ptr + row + cols, x)"),
        ("x_ptr + row + cols", "out_ptr + cols * N + cols"),
    ],
)
def test_other_loops_stay(old, new):
    assert old in COLUMNS
    source = COLUMNS.replace(old, new)
    assert not variants(SharedLoops(), source, FEW_SMS)


ROWS = """
def reference(x):
    return x * 2


def inputs(M=21, N=40, device="cuda"):
    return (torch.randn(M, N, device=device),)


@triton.jit
def doubled(x_ptr, out_ptr, M, N, S, B: tl.constexpr):
    rows = tl.program_id(0) * B + tl.arange(0, B)
    for i in range(0, tl.cdiv(N, B)):
        cols = i * B + tl.arange(0, B)
        mask = (rows[:, None] < M) & (cols[None, :] < N)
        x = tl.load(x_ptr + rows[:, None] * N + cols[None, :], mask=mask)
        tl.store(out_ptr + rows[:, None] * S + cols[None, :], x * 2, mask=mask)


def kernel(x):
    out = torch.empty_like(x)
    M, N = x.shape
    S = out.stride(0)
    doubled[(triton.cdiv(M, 8),)](x, out, M, N, S, B=8)
    return out
"""


def test_rows_that_may_meet_are_compared_by_the_launcher(is_right):
    (source,) = variants(SharedLoops(), ROWS, FEW_SMS)
    assert is_right(source, ROWS)
    guard = source[source.index("    if (") + 7 : source.index(":\n        doubled_")]
    sizes = {"M": 21, "N": 40}
    assert eval(guard, {**sizes, "S": 40})
    assert not eval(guard, {**sizes, "S": 39})


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("cols = i * B", "cols = i * B - 3"),  # its mask does not say where a row begins
        ("i * B + tl", "i * 4 + tl"),
    ],
)
def test_blocks_that_meet_in_rows_stay(old, new):
    assert old in ROWS
    assert not variants(SharedLoops(), ROWS.replace(old, new), FEW_SMS)
