"""Topk, sort, cumsum, and shapes that depend on data."""

from __future__ import annotations

import pytest

F, I64 = 4, 8
N = 4 * 25
X = "R(4, 25)"
DATA = "the result's shape depends on the data"

PROBLEMS = {
    # finding the largest of n takes n - 1 comparisons; topk and sort take more
    "topk": (X, "return a0.topk(4, -1)", {"fp32": (N - 4, 8 * N)}, F * N, 4 * 4 * (F + I64)),
    "the values of topk": (
        X,
        "return a0.topk(4, -1).values",
        {"fp32": (N - 4, 8 * N)},
        F * N,
        4 * 4 * F,
    ),
    "sorted values": (X, "return a0.sort(-1)[0]", {"fp32": (N - 4, 7 * N)}, F * N, F * N),
    "columns of what is sorted by column": (
        "R(8, 6)",
        "return a0.sort(0)[0][:, 2:5].clone(), a0.topk(2, 0).values[:, 2:4].clone()",
        {"fp32": (0, 7 * 48)},
        F * 24,
        F * (24 + 4),
    ),
    "argsort": (X, "return a0.argsort(-1)", {"fp32": (N - 4, 7 * N)}, F * N, I64 * N),
    "argmax": (X, "return a0.argmax(-1)", {"fp32": N - 4}, F * N, I64 * 4),
    "the largest and where": (X, "return a0.max(-1)", {"fp32": N - 4}, F * N, 4 * (F + I64)),
    "median": (X, "return a0.median(-1).values", {"fp32": (N - 4, 8 * N)}, F * N, F * 4),
    "cumsum": (X, "return a0.cumsum(-1)", {"fp32": N - 4}, F * N, F * N),
    "the last of a cumsum": (
        X,
        "return a0.cumsum(-1)[:, -1].clone()",
        {"fp32": N - 4},
        F * N,
        F * 4,
    ),
    "the first ten of a cumsum": (
        X,
        "return a0.cumsum(-1)[:, :10].clone()",
        {"fp32": 36},
        F * 40,
        F * 40,
    ),
    "a cumsum from the end": (
        "R(64)",
        "return a0.flip(0).cumsum(0).flip(0)",
        {"fp32": 63},
        F * 64,
        F * 64,
    ),
    "cumulative maximum's values": (
        X,
        "return a0.cummax(-1)[0]",
        {"fp32": N - 4},
        F * N,
        F * N,
    ),
    "a histogram": (
        "R(100)",
        "return torch.histc(a0, 10, min=-1, max=1)",
        {"fp32": (100, 300)},
        F * 100,
        F * 10,
    ),
    "counts of integers": (
        "arange(100) % 7",
        "return torch.bincount(a0, minlength=7)",
        {"int32": (93, 100)},
        I64 * 100,
        I64 * 7,
    ),
    "unique values of known integers": (
        "arange(100) % 7",
        "return torch.unique(a0)",
        {"int32": (0, 700)},
        I64 * 100,
        I64 * 7,
    ),
    "how many are positive": (
        "R(100)",
        "return (a0 > 0).sum()",
        {"fp32": 100, "int32": (0, 100)},
        F * 100,
        I64,
    ),
    "places of positive numbers among drawn ones: about half": (
        "R(100)",
        "return (a0 > 0).nonzero()",
        {"fp32": 100, "int32": (0, 100)},
        F * 100,
        (I64 * 30, I64 * 70),
        DATA,
    ),
    "a branch on a known number": (
        "tensor([5]); R(64, 8)",
        "return a1[:int(a0.item())] * 2",
        {"fp32": 40},
        (F * 40, I64 + F * 40),  # the number is known to whoever writes the kernel, or read
        F * 40,
    ),
    "a slice by what nobody knows: one is assumed": (
        "R(64)",
        "return a0[:4] * 2 if a0.sum().item() > 0 else a0[:4] + 1",
        {"fp32": (4, 68)},
        (F * 4, F * 64),
        F * 4,
        DATA,
    ),
    "the argmax of a product": (
        "R(4, 8); R(8, 10)",
        "return (a0 @ a1).argmax(-1)",
        {"contraction.fp32": 2 * 4 * 8 * 10, "fp32": 36},
        F * (32 + 80),
        I64 * 4,
    ),
    "topk chooses rows of another table": (
        "R(4, 25); R(25, 32)",
        "return a1[a0.topk(1, -1).indices[:, 0]]",
        {"fp32": (N - 4, 8 * N)},
        F * (N + 4 * 32),
        F * 4 * 32,
        "rows are taken to be distinct",
    ),
}


@pytest.mark.parametrize("name", PROBLEMS)
def test_bound_is_what_was_derived(check_bound, name):
    check_bound(PROBLEMS, name)


@pytest.mark.slow
@pytest.mark.parametrize("name", PROBLEMS)
def test_brute_force_agrees_with_the_derivation(check_derivation, name):
    check_derivation(PROBLEMS, name)
