"""Rows of blocks that get other shapes, and elements that are sums over a whole row."""

from __future__ import annotations

import pytest

pytest.importorskip("libcst")
from rewriting import HEADER, variants

from solkit.tuner.proposers.rewriter.canonical_form import canonical_form
from solkit.tuner.proposers.rewriter.row_tiles import Rows, Tile

HALVES = """
def reference(x):
    pairs = x.view(len(x), -1, 2)
    low, high = pairs.amin(-1), pairs.amax(-1)
    sums = torch.stack([low.sum(1), high.sum(1)], 1)
    return sums[:, :, None] * torch.cumsum(high, 1)[:, None, :]


def inputs(M=5, device="cuda"):
    return (torch.randn(M, 16, device=device),)


@triton.jit
def add(a, c):
    return a + c


@triton.jit
def checked(x):
    if x.dtype == tl.float32:
        return tl.floor(x) - tl.floor(x) + x
    else:
        raise ValueError("no float")


@triton.jit
def halves(X, Y, M):
    row = tl.program_id(0)
    cols = tl.arange(0, 16)
    x = tl.load(X + row * 16 + cols)
    pairs = x.reshape(8, 2)
    one, two = tl.split(pairs)
    low = tl.minimum(one, two)
    high = checked(tl.maximum(one, two))
    low_sum, high_sum = tl.reduce((low, high), 0, pair_add)
    turned = tl.permute(tl.reshape(pairs, (2, 2, 2, 2)), (3, 0, 1, 2))
    again = tl.trans(tl.reshape(turned, (2, 8)))
    none = tl.sum(tl.broadcast_to(tl.expand_dims(again, 0), (1, 8, 2)), axis=0)
    none -= (pairs, x) if False else pairs if M > 0 else -pairs
    run = tl.cumsum(high, axis=0) + tl.sum(none, axis=1)
    is_first = tl.arange(0, 2) == 0
    sums = tl.where(is_first, low_sum, high_sum)
    at = tl.arange(0, 2).expand_dims(-1) * 8 + tl.arange(0, 8)[None, :]
    tl.store(Y + row * 16 + at, sums[:, None] * (run[None, :] + 0 * tl.expand_dims(low, 0)))


@triton.jit
def pair_add(a, b, c, d):
    return a + c, b + d


def kernel(x):
    M = x.shape[0]
    y = torch.empty((M, 2, 8), device=x.device)
    halves[(M,)](x, y, M)
    return y
"""


def test_blocks_of_other_shapes_get_rows(is_right):
    plain = canonical_form(HEADER + HALVES).removeprefix(HEADER)
    assert "expand_dims" not in plain
    (variant,) = variants(Rows(), plain, M=5)
    assert "tl.reshape(x, (ROWS, 8, 2))" in variant
    assert is_right(variant, HALVES, M=5)


PAIRS = """
def reference(a, b):
    return a @ b.t() / a.shape[1]


def inputs(M=5, N=9, K=16, device="cuda"):
    return torch.randn(M, K, device=device), torch.randn(N, K, device=device)


@triton.jit
def product(A, B, C, N, K: tl.constexpr):
    i = tl.program_id(0)
    j = tl.program_id(1)
    k = tl.arange(0, K)
    a = tl.load(A + i * K + k).to(tl.float32)
    b = tl.load(B + j * K + k).to(tl.float32)
    tl.store(C + i * N + j, tl.sum(a * b, axis=0) / K)


def kernel(a, b):
    M, K = a.shape
    N = b.shape[0]
    c = torch.empty((M, N), device=a.device)
    product[(M, N)](a, b, c, N, K=K)
    return c
"""


def test_programs_of_one_element_of_a_product_take_a_tile(is_right):
    (variant,) = variants(Tile(), PAIRS, M=5, N=9, K=16)
    assert "tl.dot(a, tl.trans(b)" in variant
    assert is_right(variant, PAIRS, M=5, N=9, K=16)
