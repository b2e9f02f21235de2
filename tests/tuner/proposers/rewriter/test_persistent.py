"""Programs that stay share all tiles, of whatever size these are."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from rewriting import HEADER, brief, rewritten, variants

from solkit.core import Checked
from solkit.tuner.interpreter_check import Checker
from solkit.tuner.proposers.rewriter._edit import device_tensor
from solkit.tuner.proposers.rewriter._parse import parse_kernel
from solkit.tuner.proposers.rewriter.persistent import Persistent
from solkit.tuner.proposers.rewriter.tile_constants import Retile

PRODUCT = """
TOLERANCE = {"rtol": 1e-3, "atol": 1e-3}


def reference(a, b):
    return a @ b


def inputs(M=40, N=72, K=32, device="cuda"):
    return torch.randn(M, K, device=device), torch.randn(K, N, device=device)


@triton.jit
def product(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    pid_m = tl.program_id(0)
    pid_n = tl.program_id(1)
    rows = pid_m * BM + tl.arange(0, BM)
    cols = pid_n * BN + tl.arange(0, BN)
    acc = tl.zeros((BM, BN), tl.float32)
    for k in range(0, K, BK):
        at = k + tl.arange(0, BK)
        inside = (rows[:, None] < M) & (at[None, :] < K)
        x = tl.load(a + rows[:, None] * K + at[None, :], mask=inside, other=0.0)
        inside = (at[:, None] < K) & (cols[None, :] < N)
        y = tl.load(b + at[:, None] * N + cols[None, :], mask=inside, other=0.0)
        acc += tl.dot(x, y, input_precision="ieee")
    inside = (rows[:, None] < M) & (cols[None, :] < N)
    tl.store(c + rows[:, None] * N + cols[None, :], acc, mask=inside)


def kernel(a, b):
    M, K = a.shape
    N = b.shape[1]
    c = torch.empty((M, N), device=a.device)
    grid = lambda meta: (triton.cdiv(M, meta["BM"]), triton.cdiv(N, meta["BN"]))
    product[grid](a, b, c, M, N, K, BM=16, BN=16, BK=16)
    return c
"""
SIZES = {"M": 40, "N": 72, "K": 32}


def test_the_number_of_tiles_follows_from_their_size(is_right: Callable[..., bool]) -> None:
    persistent = rewritten(Persistent(), PRODUCT, **SIZES)
    (larger,) = variants(Retile(), persistent, **SIZES)
    assert "BM=128, BN=128" in larger
    assert "triton.cdiv(M, BM) * triton.cdiv(N, BN)" in larger
    assert is_right(HEADER + persistent, PRODUCT, **SIZES)
    assert is_right(larger, PRODUCT, **SIZES)


@pytest.mark.slow
def test_a_number_of_tiles_that_follows_from_another_size_is_wrong_with_small_blocks(
    checker: Checker,
) -> None:
    (larger,) = variants(Retile(), rewritten(Persistent(), PRODUCT, **SIZES), **SIZES)
    counts = "triton.cdiv(M, BM),\n        triton.cdiv(N, BN),"
    assert counts in larger
    stale = larger.replace(counts, "triton.cdiv(M, 128),\n        triton.cdiv(N, 128),")
    result, why = checker.check(stale, brief(PRODUCT, M=512, N=512, K=256))
    assert result is Checked.WRONG
    assert why.startswith("with ")
    assert "BM=16" in why


def test_a_grid_whose_tiles_are_counted_elsewhere_keeps_its_size() -> None:
    handed_on = PRODUCT.replace("K, BM: tl", "K, tiles, BM: tl").replace(
        "c, M, N, K, BM=16", "c, M, N, K, triton.cdiv(M, 16), BM=16"
    )
    (variant,) = variants(Retile(), handed_on, **SIZES)
    assert "BM=16, BN=16" in variant  # nothing says whose number it is


POOLED = """
def reference(x, size):
    return x.view(-1, size).amax(1)


def inputs(N=40, size=4, device="cuda"):
    return torch.randn(N * size, device=device), size


@triton.jit
def largest(x, out, n, size, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    best = tl.full((BLOCK,), float("-inf"), tl.float32)
    for tap in range(size):
        best = tl.maximum(best, tl.load(x + at * size + tap, mask=at < n, other=0.0))
    tl.store(out + at, best, mask=at < n)


def kernel(x, size):
    y = x.contiguous()
    out = torch.empty(y.numel() // size, device=y.device)
    grid = (triton.cdiv(out.numel(), 16),)
    largest[grid](y, out, out.numel(), size, BLOCK=16)
    return out
"""


def test_the_device_is_asked_of_a_tensor_and_not_of_a_number_of_the_launcher() -> None:
    text = parse_kernel(HEADER + POOLED)
    assert text is not None
    assert device_tensor(text.launches[0]) in ("y", "out")
