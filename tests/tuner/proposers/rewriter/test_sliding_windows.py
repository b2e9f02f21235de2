"""Windows that overlap as scans of blocks: whether variants are right; what stays."""

from __future__ import annotations

import pytest
from rewriting import variants

from solkit.tuner.proposers.rewriter.sliding_windows import SlidingWindows

SUMS = """
def reference(x, W):
    sums = x.unfold(1, W, 1).sum(-1)
    return sums, sums.amax(1)


def inputs(N=70, W=9, device="cuda"):
    return torch.randn(2, N, device=device), W


@triton.jit
def sums_kernel(x_ptr, out_ptr, best_ptr, N, W, BLOCK: tl.constexpr):
    row = tl.program_id(1)
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = i < N - W + 1
    total = tl.zeros((BLOCK,), tl.float32)
    for k in range(W):
        total += tl.load(x_ptr + row * N + i + k, mask=mask, other=0.0)
    tl.store(out_ptr + row * (N - W + 1) + i, total, mask=mask)
    best = tl.max(tl.where(mask, total, float("-inf")), axis=0)
    tl.atomic_max(best_ptr + row, best)


def kernel(x, W):
    rows, N = x.shape
    out = torch.empty(rows, N - W + 1, device=x.device)
    best = torch.full((rows,), float("-inf"), device=x.device)
    sums_kernel[(triton.cdiv(N - W + 1, 32), rows)](x, out, best, N, W, BLOCK=32)
    return out, best
"""

COLUMNS = """
def reference(x, R):
    padded = torch.nn.functional.pad(x, (0, 0, R, R), value=-float("inf"))
    return padded.unfold(0, 2 * R + 1, 1).amax(-1)


def inputs(H=20, W=7, R=4, device="cuda"):
    return torch.randn(H, W, device=device), R


@triton.jit
def columns_kernel(x_ptr, out_ptr, H, W, R, BLOCK: tl.constexpr):
    y = tl.program_id(0)
    x = tl.arange(0, BLOCK)
    best = tl.full((BLOCK,), float("-inf"), tl.float32)
    for d in range(-R, R + 1):
        mask = (y + d >= 0) & (y + d < H) & (x < W)
        best = tl.maximum(best, tl.load(x_ptr + (y + d) * W + x, mask=mask, other=float("-inf")))
    tl.store(out_ptr + y * W + x, best, mask=x < W)


def kernel(x, R):
    H, W = x.shape
    out = torch.empty_like(x)
    columns_kernel[(H,)](x, out, H, W, R, BLOCK=8)
    return out
"""


@pytest.mark.parametrize(("length", "taps"), [(41, 9), (33, 33)])
def test_windows_along_rows_are_two_scans(length, taps, is_right):
    (variant,) = variants(SlidingWindows(), SUMS, N=length, W=taps)
    assert "tl.cumsum(suffix, 1, reverse=True) + tl.cumsum(prefix, 1)" in variant
    variant = variant.replace("SPAN=1024", "SPAN=32")
    assert is_right(variant, SUMS, N=length, W=taps)
    assert is_right(variant, SUMS, N=length, W=5)  # by the original launch


def test_windows_along_columns_are_scans_of_tiles(is_right):
    (variant,) = variants(SlidingWindows(), COLUMNS, H=20, W=7, R=4)
    assert "tl.associative_scan(suffix, 0, maximum, reverse=True)" in variant
    assert is_right(variant, COLUMNS, H=20, W=7, R=4)
    assert is_right(variant, COLUMNS, H=6, W=7, R=7)  # windows longer than a column


def test_few_taps_stay_loads():
    assert not variants(SlidingWindows(), SUMS.replace("range(W)", "range(5)"), N=70, W=5)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("i + k,", "i + 2 * k,"),
        ("i + k,", "i - k,"),
        ("i + k,", "i * 2 + k,"),
        ("other=0.0)", "other=1.0)"),
        ("other=0.0)", "other=0.0) * k"),
        ("other=0.0)", "other=0.0) * i"),
        ("other=0.0)", "other=0.0) + tl.load(out_ptr + i, mask=mask)"),
        ("N + i + k, mask=mask, other=0.0", "N + i + k"),
        ("out_ptr + row * (N - W + 1) + i, total, mask=mask", "out_ptr + i, total"),
        ('tl.where(mask, total, float("-inf"))', "total"),
        ("tl.atomic_max(best_ptr + row,", "tl.store(best_ptr + tl.program_id(0),"),
        ("tl.atomic_max(best_ptr + row, best", "tl.atomic_add(best_ptr + row, best"),
        ("total, mask=mask", "total * BLOCK, mask=mask"),
        ("    tl.atomic_max(best_ptr + row, best)", "    tl.store(out_ptr + i, best, mask=mask)"),
        ("tl.atomic_max(best_ptr + row, best)", "tl.atomic_max(best_ptr + i, best, mask=mask)"),
        ("best)\n", "best)\n    tl.store(out_ptr + i, total - best, mask=mask)\n"),
        ("tl.where(mask,", "tl.where(i > 3,"),
        ("mask = i < N - W + 1", "mask = i > N - W + 1"),
        ("mask = i < N - W + 1", "mask = i < N - W + 1 - tl.arange(0, BLOCK)"),
        ("    tl.store", "    total = tl.flip(total)\n    tl.store"),
        ("total += tl.load", "total = total * 2 + tl.load"),
        ("total += tl.load", "total -= tl.load"),
        ("(triton.cdiv(N - W + 1, 32), rows)", "(N // 32 + 1, rows)"),
    ],
)
def test_other_loops_stay(old, new):
    assert old in SUMS
    assert not variants(SlidingWindows(), SUMS.replace(old, new), N=70, W=9)
