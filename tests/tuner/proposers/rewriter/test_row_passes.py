"""Passes over short rows that take an extremum and its place."""

from __future__ import annotations

import pytest
from rewriting import HEADER, rewritten, variants

from solkit.tuner.proposers.rewriter._carried import unpacked_statements
from solkit.tuner.proposers.rewriter._nodes import parse_statements, render_code
from solkit.tuner.proposers.rewriter.row_passes import RowPasses
from solkit.tuner.proposers.rewriter.row_tiles import Rows

SHAPE = {"T": 37, "E": 12}
GATE = """
import numpy


def reference(logits):
    x, picks, weights = logits.cpu().numpy().copy(), [], []
    for _ in range(3):
        at = x.argmax(-1)  # the first of equal ones
        picks.append(at)
        weights.append(x[range(len(x)), at])
        x[range(len(x)), at] = -numpy.inf
    weights = numpy.exp(numpy.stack(weights, -1))
    total = weights.sum(-1, keepdims=True)
    return torch.tensor(weights / total), torch.tensor(numpy.stack(picks, -1)).int()


def inputs(T=37, E=12, device="cuda"):
    x = torch.randint(-2, 3, (T, E), device=device).float()  # many are equal
    x[1] = 0.5
    x[2, 1:] = -float("inf")
    x[3, 4:] = -float("inf")
    return (x,)


@triton.jit
def gate(logits, weights, ids, E, TOPK: tl.constexpr, BLOCK_E: tl.constexpr):
    token = tl.program_id(0)
    e = tl.arange(0, BLOCK_E)
    x = tl.load(logits + token * E + e, mask=e < E, other=-float("inf"))
    total = 0.0
    for k in tl.static_range(TOPK):
        best = tl.max(x, axis=0)
        at = tl.argmax(x, axis=0)
        w = tl.exp(best)
        total += w
        tl.store(weights + token * TOPK + k, w)
        tl.store(ids + token * TOPK + k, at)
        x = tl.where(e == at, -float("inf"), x)
    for k in tl.static_range(TOPK):
        w = tl.load(weights + token * TOPK + k)
        tl.store(weights + token * TOPK + k, w / total)


def kernel(logits):
    T, E = logits.shape
    weights = torch.empty((T, 3), dtype=torch.float32, device=logits.device)
    ids = torch.empty((T, 3), dtype=torch.int32, device=logits.device)
    gate[(T,)](logits, weights, ids, E, TOPK=3, BLOCK_E=triton.next_power_of_2(E))
    return weights, ids
"""
TWO = """
def reference(x):
    values, places = torch.topk(x, 2, -1, largest=False)
    return values / values.sum(-1, keepdim=True), places.int()


def inputs(T=37, E=12, device="cuda"):
    return (torch.rand(T, E, device=device).argsort(-1).float() + 1,)


@triton.jit
def least(x, value, place, E, K: tl.constexpr, N: tl.constexpr):
    row = tl.program_id(0)
    c = tl.arange(0, N)
    first = -1
    for k in range(K):
        v = tl.load(x + row * E + c, mask=c < E, other=1e9)
        v = tl.where(c == first, 1e9, v)
        at = tl.argmin(v, axis=0)
        best = tl.min(v, axis=0)
        if k == 0:
            first = at
        tl.store(value + row * K + k, best)
        tl.store(place + row * K + k, at)


@triton.jit
def scale(value, total, K: tl.constexpr):
    i = tl.program_id(0)
    if i < total:
        a = tl.load(value + i * K)
        b = tl.load(value + i * K + 1)
        tl.store(value + i * K, a / (a + b))
        tl.store(value + i * K + 1, b / (a + b))


def kernel(x):
    T, E = x.shape
    value = torch.empty((T, 2), dtype=torch.float32, device=x.device)
    place = torch.empty((T, 2), dtype=torch.int32, device=x.device)
    least[(T,)](x, value, place, E, K=2, N=triton.next_power_of_2(E))
    scale[(T,)](value, T, K=2)
    return value, place
"""
TILES = """
def reference(x):
    return x.argmax(-1).int()


def inputs(T=37, E=12, device="cuda"):
    return (torch.rand(T, E, device=device).argsort(-1).float(),)


@triton.jit
def places(x, y, T, E, R: tl.constexpr, N: tl.constexpr):
    row = tl.program_id(0) * R + tl.arange(0, R)
    c = tl.arange(0, N)
    mask = (row < T)[:, None] & (c < E)[None, :]
    v = tl.load(x + row[:, None] * E + c[None, :], mask=mask, other=-float("inf"))
    at = tl.argmax(v, axis=1)
    tl.store(y + row, at, mask=row < T)


def kernel(x):
    T, E = x.shape
    y = torch.empty(T, dtype=torch.int32, device=x.device)
    places[(triton.cdiv(T, 8),)](x, y, T, E, R=8, N=triton.next_power_of_2(E))
    return y
"""


@pytest.mark.parametrize("shape", [pytest.param(SHAPE, marks=pytest.mark.slow), {"T": 5, "E": 16}])
def test_passes_keep_their_results_and_take_the_first_of_equal_ones(is_right, shape):
    (variant,) = variants(RowPasses(), GATE, **shape)
    assert variant.count("tl.load(") == 1
    assert variant.count("tl.store(weights") == 3
    assert "tl.argmax" not in variant
    assert "for k" not in variant
    assert is_right(variant, GATE, **shape)


@pytest.mark.slow
def test_a_number_of_passes_that_callers_choose_has_a_guard(is_right):
    source = GATE.replace("def kernel(logits):", "def kernel(logits, *, top=3):")
    source = source.replace("TOPK=3", "TOPK=top")
    (variant,) = variants(RowPasses(), source, **SHAPE)
    assert "    if top == 3:\n        gate_straight[(T,)](" in variant
    assert variant.count("for k in tl.static_range(TOPK):") == 2  # of the original
    assert is_right(variant, source, **SHAPE)


def test_several_rows_a_program_follow(is_right):
    variant = variants(Rows(), rewritten(RowPasses(), GATE, **SHAPE), **SHAPE)[0]
    assert variant.count("tl.load(") == 1
    assert is_right(variant, GATE, **SHAPE)


def test_a_launch_that_reads_the_results_becomes_part_of_the_passes(is_right):
    (variant,) = variants(RowPasses(), TWO, **SHAPE)
    assert variant.count("tl.load(") == 1
    assert variant.count("tl.store(") == 4
    assert variant.count("@triton.jit") == 1
    assert "if " not in variant.partition("@triton.jit")[2]
    assert is_right(variant, TWO, **SHAPE)


def test_a_place_along_an_axis_of_a_tile(is_right):
    (variant,) = variants(RowPasses(), TILES, **SHAPE)
    assert "tl.arange(0, N)[None, :]" in variant
    assert is_right(variant, TILES, **SHAPE)


@pytest.mark.slow
def test_a_trip_that_reads_another_trips_result_at_an_unknown_distance_loads_it(is_right):
    source = GATE.replace("TOPK + k", "E + k * S").replace("E, TOPK:", "E, S, TOPK:")
    source = source.replace("ids, E, T", "ids, E, 1, T").replace("(T, 3)", "(T, E)")
    source = source.replace("return weights, ids", "return weights[:, :3], ids[:, :3]")
    (variant,) = variants(RowPasses(), source, **SHAPE)
    assert variant.count("tl.load(weights") > 0
    assert is_right(variant, source, **SHAPE)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("TOPK=3, BLOCK", "TOPK=E // 2, BLOCK"),  # not said
        ("e == at, -f", "e + k * BLOCK_E == at, -f"),  # blocks of a row
        ("TOPK=3, BLOCK", "TOPK=9, BLOCK"),  # too many to be straight code
        ("total += w\n", "total += w\n        if total > 9.0:\n            break\n"),
        ("total += w\n", "total += w * k.to(tl.float32)\n"),  # a number has no type
    ],
)
def test_loops_of_unknown_or_many_trips_stay(old, new):
    assert old in GATE
    (variant,) = variants(RowPasses(), GATE.replace(old, new), **SHAPE)
    assert "for k in tl.static_range(TOPK):" in variant
    assert "tl.argmax" not in variant


@pytest.mark.parametrize("call", ["tl.argmax(x, axis=0, keep_dims=True)", "tl.argmax(x, axis=K)"])
def test_places_of_another_form_stay(call):
    source = GATE.replace("tl.argmax(x, axis=0)", call).replace("TOPK=3", "TOPK=9")
    assert not variants(RowPasses(), source, **SHAPE)


def test_a_store_that_an_atomic_may_read_stays():
    again = "    tl.atomic_add(weights, 0.0)\n    for k in tl.static_range(TOPK):\n        w = tl"
    source = GATE.replace("    for k in tl.static_range(TOPK):\n        w = tl", again)
    assert again in source
    (variant,) = variants(RowPasses(), source, **SHAPE)
    assert variant.count("tl.store(weights") == 6
    assert variant.startswith(HEADER)


def test_an_extremum_of_what_a_place_replaces_is_not_moved_ahead(is_right):
    source = TILES.replace("at = tl.argmax(v, axis=1)", "v = tl.argmax(v, axis=1)[:, None] * 1")
    source = source.replace("    tl.store(y", "    at = tl.max(v, axis=1)\n    tl.store(y")
    for variant in variants(RowPasses(), source, **SHAPE):
        assert is_right(variant, source, **SHAPE)


def test_values_of_a_tuple_are_taken_in_order_where_none_reads_an_earlier_one():
    (line,) = parse_statements("a, b, x = first, second, f(x)\n")
    assert [render_code(s).strip() for s in unpacked_statements([line])] == [
        "a = first",
        "b = second",
        "x = f(x)",
    ]
    (swap,) = parse_statements("a, b = b, a\n")
    assert unpacked_statements([swap]) == [swap]
