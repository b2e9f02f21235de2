"""Loops that write what they carry are shared: parts begin with what those ahead carried."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from rewriting import FEW_SMS, variants

from solkit.tuner.proposers.rewriter.split_loops import Split

RUNNING = """
TOLERANCE = {"rtol": 1e-4, "atol": 1e-4}


def reference(x):
    return x.cumsum(1)


def inputs(M=2, N=150, device="cuda"):
    return torch.randn(M, N, device=device)


@triton.jit
def running(x_ptr, out_ptr, N, B: tl.constexpr):
    row = tl.program_id(0)
    carry = 0.0
    for start in range(0, N, B):
        cols = start + tl.arange(0, B)
        x = tl.load(x_ptr + row * N + cols, mask=cols < N, other=0.0)
        done = tl.cumsum(x, axis=0) + carry
        tl.store(out_ptr + row * N + cols, done, mask=cols < N)
        carry += tl.sum(x, axis=0)


def kernel(x):
    out = torch.empty_like(x)
    running[(x.shape[0],)](x, out, x.shape[1], B=16)
    return out
"""
LARGEST = (
    RUNNING.replace("x.cumsum(1)", "x.cummax(1).values")
    .replace("carry = 0.0", "carry = -1e30")
    .replace("other=0.0", "other=-1e30")
    .replace(
        "done = tl.cumsum(x, axis=0) + carry",
        "at = tl.arange(0, B)\\n"
        "        ahead = tl.where(at[None, :] <= at[:, None], x[None, :], -1e30)\\n"
        "        done = tl.maximum(tl.max(ahead, axis=1), carry)".replace("\\n", "\n"),
    )
    .replace("carry += tl.sum(x, axis=0)", "carry = tl.maximum(carry, tl.max(x, axis=0))")
)
COLUMNS = """
TOLERANCE = {"rtol": 1e-4, "atol": 1e-4}


def reference(x):
    return x.cumsum(0)


def inputs(M=150, N=20, device="cuda"):
    return torch.randn(M, N, device=device)


@triton.jit
def down(x_ptr, out_ptr, M, N, B: tl.constexpr):
    cols = tl.program_id(0) * B + tl.arange(0, B)
    sums = tl.zeros((B,), dtype=tl.float32)
    for row in range(0, M):
        sums += tl.load(x_ptr + row * N + cols, mask=cols < N, other=0.0)
        tl.store(out_ptr + row * N + cols, sums, mask=cols < N)


def kernel(x):
    out = torch.empty_like(x)
    down[(triton.cdiv(x.shape[1], 16),)](x, out, x.shape[0], x.shape[1], B=16)
    return out
"""
SIZES = {"M": 2, "N": 150}


@pytest.mark.parametrize("place", ["out_ptr + row * N", "line"])
def test_a_scan_that_reads_what_it_stored_is_not_shared(place):
    loaded = f"tl.load({place} + cols, mask=cols < N)"
    source = RUNNING.replace("tl.sum(x,", f"tl.sum({loaded},")
    named = source.replace("carry = 0.0", "carry, line = 0.0, out_ptr + row * N")
    assert not variants(Split(), named, FEW_SMS, **SIZES)
    single = source.replace("carry = 0.0", "carry = 0.0\n    line = out_ptr + row * N")
    assert not variants(Split(), single, FEW_SMS, **SIZES)


@pytest.mark.quick("sums")
@pytest.mark.parametrize("source", [RUNNING, LARGEST], ids=["sums", "maxima"])
def test_running_values_of_a_row_are_shared(source: str, is_right: Callable[..., bool]) -> None:
    (variant,) = variants(Split(), source, FEW_SMS, **SIZES)
    assert variant.count("tl.store(out_ptr") == 1  # the sums of the parts write nothing else
    assert is_right(variant, source, **SIZES)


def test_running_sums_from_the_end_are_not_shared() -> None:
    backwards = (
        RUNNING.replace("cols = start + tl.arange(0, B)", "cols = N - 1 - start - tl.arange(0, B)")
        .replace("mask=cols < N", "mask=cols >= 0")
        .replace("x.cumsum(1)", "x.flip(1).cumsum(1).flip(1)")
    )
    # nothing proves yet that trips whose addresses go down store apart
    assert not variants(Split(), backwards, FEW_SMS, **SIZES)


@pytest.mark.slow
def test_running_sums_of_columns_are_shared(is_right: Callable[..., bool]) -> None:
    sizes = {"M": 150, "N": 20}
    (variant,) = variants(Split(), COLUMNS, FEW_SMS, **sizes)
    assert is_right(variant, COLUMNS, **sizes)


@pytest.mark.slow
def test_what_is_read_behind_the_loop_is_the_sum_of_all_parts(
    is_right: Callable[..., bool],
) -> None:
    total = RUNNING.replace(
        "        carry += tl.sum(x, axis=0)\n",
        "        carry += tl.sum(x, axis=0)\n    tl.store(out_ptr + row * N, carry)\n",
    ).replace("return x.cumsum(1)", "y = x.cumsum(1)\n    y[:, 0] = x.sum(1)\n    return y")
    (variant,) = variants(Split(), total, FEW_SMS, **SIZES)
    assert is_right(variant, total, **SIZES)


def test_a_scan_whose_last_block_is_read_behind_is_not_shared() -> None:
    last = RUNNING.replace("    carry = 0.0\n", "    carry = 0.0\n    last = 0.0\n").replace(
        "        carry += tl.sum(x, axis=0)\n",
        "        carry += tl.sum(x, axis=0)\n        last = tl.max(x, axis=0)\n"
        "    tl.store(out_ptr + row * N, last)\n",
    )
    assert last.count("tl.store") == 2
    assert not variants(Split(), last, FEW_SMS, **SIZES)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("carry += tl.sum(x, axis=0)", "carry = carry * 0.5 + tl.sum(x, axis=0)"),
        ("carry += tl.sum(x, axis=0)", "carry += tl.sum(done, axis=0)"),
        ("carry = 0.0", "carry = 1.0"),
        ("tl.store(out_ptr + row * N + cols,", "tl.store(out_ptr + row * N + cols - start,"),
        ("tl.load(x_ptr + row * N + cols,", "tl.load(out_ptr + row * N + cols - 1,"),
        ("tl.store(out_ptr", "tl.atomic_add(out_ptr"),
        ("tl.store(out_ptr +", "tl.store(out_ptr + tl.load(x_ptr + cols).to(tl.int32) +"),
    ],
)
def test_recurrences_and_writes_of_other_trips_places_stay_whole(old: str, new: str) -> None:
    assert old in RUNNING
    assert not variants(Split(), RUNNING.replace(old, new), FEW_SMS, **SIZES)


SUM = """
TOLERANCE = {"rtol": 1e-4, "atol": 1e-4}


def reference(x):
    return x.square().sum()


def inputs(N=3000, device="cuda"):
    return torch.randn(N, device=device)


@triton.jit
def squares(x_ptr, out_ptr, N, B: tl.constexpr):
    sums = tl.zeros((B,), dtype=tl.float32)
    for start in range(0, N, B):
        cols = start + tl.arange(0, B)
        x = tl.load(x_ptr + cols, mask=cols < N, other=0.0)
        sums += x * x
    tl.store(out_ptr, tl.sum(sums, axis=0))


def kernel(x):
    out = torch.empty((), device=x.device)
    squares[(1,)](x, out, x.numel(), B=16)
    return out
"""


@pytest.mark.slow
def test_blocks_that_are_only_reduced_leave_a_number_a_part(is_right: Callable[..., bool]) -> None:
    (variant,) = variants(Split(), SUM, FEW_SMS, N=3000)
    assert "sums_total_parts = torch.empty((SPLIT, 1, 1)" in variant
    assert is_right(variant, SUM, N=3000)


def test_numbers_have_more_parts_than_blocks_that_are_joined_one_by_one() -> None:
    (variant,) = variants(Split(), SUM, N=3000)
    assert "256, 512]" in variant
    other = SUM.replace("tl.sum(sums, axis=0)", "tl.sum(tl.exp(sums), axis=0)")
    (variant,) = variants(Split(), other, N=3000)
    assert "32, 64]" in variant


def test_a_block_that_is_used_otherwise_stays_one(is_right: Callable[..., bool]) -> None:
    other = SUM.replace("tl.sum(sums, axis=0)", "tl.sum(sums, axis=0) + tl.max(sums, axis=0) * 0")
    (variant,) = variants(Split(), other, FEW_SMS, N=3000)
    assert "sums_total" not in variant
    assert is_right(variant, other, N=3000)
