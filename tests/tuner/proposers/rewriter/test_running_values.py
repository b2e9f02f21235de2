"""Loops that store what they carry so far become scans of blocks."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from rewriting import HEADER, variants

from solkit.tuner.proposers.rewriter.canonical_form import canonical_form
from solkit.tuner.proposers.rewriter.vectorise import Vectorise

RUNNING = """
TOLERANCE = {"rtol": 1e-4, "atol": 1e-4}


def reference(x):
    return x.cumsum(1)


def inputs(M=3, N=70, device="cuda"):
    return torch.rand(M, N, device=device) + 0.5


@triton.jit
def scan(x_ptr, y_ptr, N):
    row = tl.program_id(0) * N
    total = 0.0
    for i in range(N):
        x = tl.load(x_ptr + row + i)
        total += x
        tl.store(y_ptr + row + i, total)


def kernel(x):
    y = torch.empty_like(x)
    scan[(x.shape[0],)](x, y, x.shape[1])
    return y
"""
UPDATE = "        total += x\n"
SIZES = {"M": 3, "N": 70}
PRODUCTS = RUNNING.replace("x.cumsum(1)", "x.cumprod(1)").replace("= 0.0", "= 1.0")
PRODUCTS = PRODUCTS.replace("total += x", "total = total * x").replace("+ 0.5", "* 0.1 + 0.95")
LEAST = RUNNING.replace("x.cumsum(1)", "x.cummin(1).values").replace("= 0.0", "= 9.0")
LEAST = LEAST.replace("total += x", "total = tl.minimum(total, x)")
AVERAGES = RUNNING.replace(
    "    return x.cumsum(1)",
    "    y, total = torch.empty_like(x), torch.full_like(x[:, 0], 2.0)\n"
    "    for i in range(x.shape[1]):\n"
    "        total = 0.75 * total * x[:, i] + x[:, i]\n"
    "        y[:, i] = total\n"
    "    return y",
).replace("total = 0.0", "total = 2.0")
AVERAGES = AVERAGES.replace(UPDATE, "        kept = 0.75 * total\n        total = kept * x + x\n")
DOWN = RUNNING.replace("x.cumsum(1)", "x.flip(1).cumsum(1).flip(1)")
DOWN = DOWN.replace("in range(N)", "in range(N - 1, -1, -1)")
HANDED_ON = RUNNING.replace(UPDATE, "        now = total + x\n        total = now\n").replace(
    "i, total)", "i, now)"
)
OF_SUMS = RUNNING.replace("x.cumsum(1)", "x.cumsum(1) + x.cumsum(1).cumsum(1)")
OF_SUMS = OF_SUMS.replace("total = 0.0", "total = 0.0\n    sums = 0.0")
OF_SUMS = OF_SUMS.replace(UPDATE, f"{UPDATE}        sums += total\n")
OF_SUMS = OF_SUMS.replace("i, total)", "i, total + sums)")
COLUMNS = (
    AVERAGES.replace("x[:, 0]", "x[0]")
    .replace("x.shape[1]", "x.shape[0]", 1)
    .replace("[:, i]", "[i]")
    .replace("row = tl.program_id(0) * N", "cols = tl.arange(0, 4)")
    .replace("(x_ptr + row + i)", "(x_ptr + i * M + cols, mask=cols < M, other=0.0)")
    .replace("kept * x + x", "kept + x")
    .replace("total * x[i] + x[i]", "total + x[i]")
    .replace("total = 2.0", "total = tl.full((4,), 2.0, tl.float32)")
    .replace("y_ptr + row + i, total", "y_ptr + i * M + cols, total, mask=cols < M")
    .replace("x_ptr, y_ptr, N", "x_ptr, y_ptr, M, N")
    .replace("[(x.shape[0],)](x, y, x.shape[1])", "[(1,)](x, y, x.shape[1], x.shape[0])")
    .replace("(M, N, device", "(N, M, device")
)
STATE = (  # pointers move on, by a stride that the launcher asks a tensor for
    COLUMNS.replace("tl.full((4,), 2.0, tl.float32)", "tl.load(s_ptr + cols, cols < M, other=0.0)")
    .replace("x_ptr, y_ptr, M, N", "x_ptr, y_ptr, s_ptr, M, N, stride")
    .replace("x, y, x.shape[1]", "x, y, torch.full_like(x[0], 2.0), x.shape[1]")
    .replace("x.shape[0])\n", "x.shape[0], x.stride(0))\n")
    .replace("_ptr + i * M + cols", "_ptr + at")
    .replace("    for i in range(N):\n", "    at = cols + 0\n    for i in range(N):\n")
    .replace("mask=cols < M)\n\n", "mask=cols < M)\n        at += stride\n\n")
)


@pytest.mark.quick("sums")
@pytest.mark.parametrize(
    ("source", "scan"),
    [
        (RUNNING, "tl.cumsum("),
        (PRODUCTS, "tl.cumprod("),
        (LEAST, "tl.associative_scan("),
        (AVERAGES, "tl.associative_scan(("),
        (COLUMNS, "tl.broadcast("),
        (STATE, "total_taken = tl.cast(x, total.dtype)"),
        (DOWN, "reverse=True"),
        (HANDED_ON, "tl.cumsum("),
        (OF_SUMS, "tl.cumsum(sums_taken"),
    ],
    ids=[
        *("sums", "products", "least", "averages", "of columns", "of a state"),
        *("down", "handed on", "of totals"),
    ],
)
def test_running_values_are_scans(source: str, scan: str, is_right: Callable[..., bool]) -> None:
    plain = canonical_form(HEADER + source).removeprefix(HEADER)
    (variant,) = variants(Vectorise(), plain, **SIZES)
    assert scan in variant
    assert is_right(variant, source, **SIZES)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (
            UPDATE,
            "        tl.store(y_ptr + row + i, total)\n        total += x\n",
        ),  # without itself
        ("total += x", "total += x * total"),
        ("total += x", "total = total * total + x"),
        ("row + i, total)", "row + i // 2, total)"),
        ("row + i, total)", "row + total.to(tl.int32), x)"),
        ("x_ptr + row + i)", "y_ptr + row + i - 1)"),
        ("total = 0.0", "total = N * 0.0"),  # of a type that is not known
        (UPDATE, "        if x > 1:\n            total += x\n"),
        (UPDATE, "        kept = total * x\n        x = 0.5 * x\n        total = kept + x\n"),
    ],
)
def test_other_updates_and_places_stay_one_a_trip(old: str, new: str) -> None:
    assert RUNNING.count(old) == 1
    assert not variants(Vectorise(), RUNNING.replace(old, new), **SIZES)


@pytest.mark.parametrize(
    ("start", "load", "added"),
    [
        ("0.0", "tl.load(x_ptr + row + i)", "x.to(tl.float32)"),
        ("0", "tl.load(x_ptr + row + i)", "x.to(tl.int32)"),
        ("0.0", "tl.load(x_ptr + row + i).to(tl.float32) * 2", "x"),
    ],
)
def test_blocks_are_summed_in_the_type_of_their_total(start: str, load: str, added: str) -> None:
    """In fp16, the sum of a block of large numbers would be infinite where the loop's is not."""
    source = RUNNING.replace("        tl.store(y_ptr + row + i, total)\n", "")
    source = source.replace("total = 0.0", f"total = {start}")
    source = source.replace("tl.load(x_ptr + row + i)", load)
    end = "\n    tl.store(y_ptr + row, total)\n\n\ndef kernel"
    source = source.replace("\n\n\ndef kernel", end)
    (variant,) = variants(Vectorise(), source, **SIZES)
    assert f"tl.sum(tl.where(i_mask, {added}, 0), axis=0)" in variant
