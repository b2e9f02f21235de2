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
    ],
)
def test_other_loops_stay(old, new):
    assert old in COLUMNS
    source = COLUMNS.replace(old, new)
    assert not variants(SharedLoops(), source, FEW_SMS)
