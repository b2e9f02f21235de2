"""Rows that are added to rows of a small table, as a product."""

from __future__ import annotations

import pytest
from rewriting import variants

from solkit.tuner.proposers.rewriter.private_sums import PrivateSums

SHAPE = {"R": 70, "S": 6, "D": 24}
SCATTER = """
TOLERANCE = {"rtol": 1e-3, "atol": 1e-3}


def reference(x, at, S):
    out = torch.zeros(S, x.shape[1], dtype=x.dtype, device=x.device)
    return out.index_add_(0, at.long(), x)


def inputs(R=70, S=6, D=24, device="cuda"):
    at = torch.randint(0, S, (R,), dtype=torch.int32, device=device)
    return torch.randn(R, D, device=device), at, S


@triton.jit
def scatter(x, at, out, R, D, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    r = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    slot = tl.load(at + r, mask=r < R)
    for d in range(0, D, BLOCK):
        c = d + tl.arange(0, BLOCK)
        inside = (r < R)[:, None] & (c < D)[None, :]
        v = tl.load((x + r * D)[:, None] + c[None, :], mask=inside)
        tl.atomic_add((out + slot * D)[:, None] + c[None, :], v, mask=inside)


def kernel(x, at, S):
    R, D = x.shape
    out = torch.zeros((S, D), dtype=torch.float32, device=x.device)
    scatter[(triton.cdiv(R, 8),)](x, at, out, R, D, ROWS=8, BLOCK=16)
    return out
"""


def _products(source: str) -> list[str]:
    return [v for v in variants(PrivateSums(), source, **SHAPE) if "tl.dot" in v]


def test_programs_sum_rows_by_slots(is_right):
    (variant,) = _products(SCATTER)
    assert is_right(variant, SCATTER, **SHAPE)
    assert "<= 16384:" in variant  # a large table keeps the atomics


def test_infinite_rows_change_no_other_slot(is_right):
    source = SCATTER.replace(
        "    return torch.randn(R, D, device=device), at, S",
        "    x = torch.randn(R, D, device=device)\n"
        '    x[R // 2, 0] = float("inf")\n'
        "    return x, at, S",
    )
    assert source != SCATTER
    (variant,) = _products(source)
    assert is_right(variant, source, **SHAPE)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("(out + slot * D)", "(out + slot * D + 1)"),
        ("torch.zeros((S, D)", "torch.zeros((S, 2 * D)"),  # rows that hold more
        ("tl.atomic_add(", "tl.atomic_max("),
        ("slot = tl.load(at + r, mask=r < R)", "slot = r % 4"),
        ("scatter[(triton.cdiv(R, 8),)]", "scatter[(triton.cdiv(R, 8), 2)]"),
        (
            "dtype=torch.float32, device=x.device)\n    scatter",
            "dtype=torch.float16, device=x.device)\n    scatter",
        ),
        ("c = d + tl.arange", "c = d + tl.program_id(0) % 2 * BLOCK + tl.arange"),
        ("triton.cdiv(R, 8)", "R // 8"),  # a longer block leaves more rows over
        ("x + r * D)[:, None] + c[None, :], mask=inside", "x + r * D)[:, None] + c[None, :]"),
        ("slot = tl.load(at + r, mask=r < R)", "slot = tl.load(at + r)"),
    ],
)
def test_near_misses_are_left_alone(old, new):
    assert old in SCATTER
    assert not _products(SCATTER.replace(old, new))


def test_rows_without_masks_are_taken_in_the_blocks_that_they_fill(is_right):
    masks = (("mask=r < R", ""), ("(r < R)[:, None] & (c < D)[None, :]", "(c < D)[None, :]"))
    source = SCATTER
    for old, new in (*masks, ("triton.cdiv(R, 8)", "R // 16"), ("ROWS=8", "ROWS=16")):
        assert old in source
        source = source.replace(old, new)
    (variant,) = _products(source)
    assert is_right(variant, source, R=80, S=6, D=24)
