"""Loads that are masked like the stores, where nothing else depends on what they leave out."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from rewriting import HEADER, variants

from solkit.tuner.proposers.rewriter.canonical_form import canonical_form
from solkit.tuner.proposers.rewriter.tile_constants import Retile

POOLED = """
def reference(x):
    return x.unfold(0, 3, 2).amax(1)


def inputs(N=65, device="cuda"):
    return torch.randn(N, device=device)


@triton.jit
def largest(x, out, length, total, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    keep = at < total
    best = tl.full((BLOCK,), float("-inf"), tl.float32)
    for tap in range(3):
        valid = at * 2 + tap < length
        best = tl.maximum(best, tl.load(x + at * 2 + tap, mask=at >= 0, other=0.0))
    tl.store(out + at, best, mask=keep)


def kernel(x):
    out = torch.empty((x.numel() - 1) // 2, device=x.device)
    largest[(triton.cdiv(out.numel(), 16),)](x, out, x.numel(), out.numel(), BLOCK=16)
    return out
"""
LOAD = "tl.load(x + at * 2 + tap, mask=at >= 0, other=0.0)"
MASKED = "tl.load(x + at * 2 + tap, mask=keep & (at >= 0), other=0.0)"


def test_loads_of_a_window_leave_out_what_no_store_writes() -> None:
    assert MASKED in canonical_form(HEADER + POOLED)


def test_larger_blocks_of_such_a_window_read_within_their_tensors(
    is_right: Callable[..., bool],
) -> None:
    plain = canonical_form(HEADER + POOLED).removeprefix(HEADER)
    (larger,) = variants(Retile(), plain, N=65)
    assert is_right(larger, POOLED, N=65)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("mask=keep)", "mask=keep)\n    tl.store(out + at, best, mask=at < length)"),
        ("mask=keep)", "mask=keep)\n    tl.atomic_add(out + at, best, mask=keep)"),
        ("        valid =", "        keep = at < total - tap\n        valid ="),
        ("    tl.store(", "    best -= tl.sum(best, axis=0)\n    tl.store("),
        ("    tl.store(", "    best += tl.cumsum(best, axis=0)\n    tl.store("),
        (LOAD, LOAD.replace("at * 2 + tap, mask=at >= 0", "tap, mask=tap >= 0")),
        (LOAD, MASKED),
    ],
)
def test_other_loads_keep_their_masks(old: str, new: str) -> None:
    source = HEADER + POOLED.replace(old, new)
    load = next(line for line in source.splitlines() if "tl.load" in line)
    assert load in canonical_form(source)
