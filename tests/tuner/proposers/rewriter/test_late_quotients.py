"""Sums that each trip divides are divided behind the loop, and powers share one maximum."""

from __future__ import annotations

import pytest
from rewriting import FEW_SMS, HEADER, variants

from solkit.tuner.proposers.rewriter.canonical_form import canonical_form
from solkit.tuner.proposers.rewriter.split_loops import Split

ATTEND = """
TOLERANCE = {"rtol": 1e-3, "atol": 1e-3}


def reference(q, k, v):
    return torch.softmax(q @ k.T, -1) @ v


def inputs(S=40, N=72, device="cuda"):
    return tuple(torch.randn(n, 16, device=device) for n in (S, N, N))


@triton.jit
def attend(Q, K, V, O, S, N, D: tl.constexpr, BLOCK: tl.constexpr):
    rows = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    d = tl.arange(0, D)
    q = tl.load(Q + rows[:, None] * D + d[None, :], mask=rows[:, None] < S, other=0.0)
    top = tl.zeros([BLOCK], dtype=tl.float32) - float("inf")
    total = tl.zeros([BLOCK], dtype=tl.float32)
    acc = tl.zeros([BLOCK, D], dtype=tl.float32)
    for start in range(0, N, BLOCK):
        start = tl.multiple_of(start, BLOCK)
        cols = start + tl.arange(0, BLOCK)
        k = tl.load(K + cols[:, None] * D + d[None, :], mask=cols[:, None] < N, other=0.0)
        scores = tl.dot(q, tl.trans(k), input_precision="ieee")
        scores = tl.where(cols[None, :] < N, scores, float("-inf"))
        own = tl.max(scores, 1)
        p = tl.exp(scores - own[:, None])
        own_total = tl.sum(p, 1)
        new = tl.maximum(top, own)
        alpha = tl.exp(top - new)
        beta = tl.exp(own - new)
        new_total = alpha * total + beta * own_total
        p_scale = beta / new_total
        p = p * p_scale[:, None]
        scale = total / new_total * alpha
        acc = acc * scale[:, None]
        v = tl.load(V + cols[:, None] * D + d[None, :], mask=cols[:, None] < N, other=0.0)
        acc += tl.dot(p, v, input_precision="ieee")
        total = new_total
        top = new
    tl.store(O + rows[:, None] * D + d[None, :], acc, mask=rows[:, None] < S)


def kernel(q, k, v):
    out = torch.empty_like(q)
    S, N = q.shape[0], k.shape[0]
    attend[(triton.cdiv(S, 16),)](q, k, v, out, S, N, D=16, BLOCK=16)
    return out
"""
SIZES = {"S": 40, "N": 72}


def trip(source):
    """The statements of the loop in canonical form."""
    form = canonical_form(HEADER + source)
    return (
        form.split("in range(0, N, BLOCK):\n")[1]
        .split("    tl.store(O")[0]
        .split("\n    total_")[0]
    )


def test_a_trip_neither_divides_nor_takes_its_own_maximum(is_right):
    body = trip(ATTEND)
    assert " / " not in body
    assert "beta" not in body
    assert body.count("tl.exp(") == 2
    form = canonical_form(HEADER + ATTEND)
    assert "acc = acc / total_total[:, None]" in form
    assert is_right(form, ATTEND, **SIZES)


def test_then_programs_may_share_the_loop(is_right):
    form = canonical_form(HEADER + ATTEND).removeprefix(HEADER)
    assert not variants(Split(), ATTEND, FEW_SMS, **SIZES)
    (variant,) = variants(Split(), form, FEW_SMS, **SIZES)
    assert is_right(variant, ATTEND, **SIZES)


GUARD = "        new_total = alpha * total + beta * own_total\n"
FIRST = "acc = tl.zeros([BLOCK, D], dtype=tl.float32)"
TOTAL = "total = tl.zeros([BLOCK], dtype=tl.float32)"
SAFE = f"{GUARD}        safe = tl.where(new_total > 0.0, new_total, 1.0)\n"


@pytest.mark.parametrize(
    ("changes"),
    [
        [(GUARD, SAFE), ("beta / new_total", "beta / safe"), ("total / new_total", "total / safe")],
        [(GUARD, f"{GUARD}        new_total = tl.where(new_total == 0.0, 1e-9, new_total)\n")],
        [("total / new_total * alpha", "alpha * total / new_total")],
        [("beta / new_total\n", "1.0 * beta / new_total\n")],
        [("acc += tl.dot(p, v, ", "acc = tl.dot(p, v, acc, ")],
    ],
)
def test_other_ways_to_write_it(changes):
    source = ATTEND
    for old, new in changes:
        assert old in source
        source = source.replace(old, new)
    body = trip(source)
    assert " / " not in body
    assert "1e-9" not in body


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("scale = total / new_total * alpha", "scale = alpha / new_total"),  # the sum is not kept
        ("p_scale = beta / new_total", "p_scale = beta / total"),
        ("p * p_scale[:, None]", "p * p_scale[None, :]"),  # of the columns
        (FIRST, f"{FIRST} + 1.0"),
        (TOTAL, f"{TOTAL} + 1.0"),
        ("        top = new\n", "        top = new\n        tl.store(O + start, tl.sum(acc))\n"),
        ("        top = new\n", "        top = new + 0.0 * tl.sum(acc)\n"),
        ("total = new_total\n", "total = new_total + 1.0\n"),
        ("acc += tl.dot(", "acc += 1.0 + tl.dot("),  # a term that is not divided
    ],
)  # fmt: skip
def test_what_is_no_quotient_of_sums_stays(old, new):
    assert old in ATTEND
    assert " / " in trip(ATTEND.replace(old, new, 1))


def test_a_maximum_that_is_not_part_of_the_running_one_stays():
    body = trip(ATTEND.replace("new = tl.maximum(top, own)", "new = tl.maximum(top, own - 1.0)"))
    assert "beta" in body


def test_a_fused_sum_is_two_operations():
    form = trip(
        ATTEND.replace("alpha * total + beta * own_total", "tl.fma(alpha, total, beta * own_total)")
    )
    assert "tl.fma" not in form
    assert "multiple_of" not in form


NARROW = ("tl.dot(p, v, input", "tl.dot(p.to(tl.float16), v.to(tl.float16), input")


def test_shares_of_a_narrow_type_stay_at_most_one():
    source = ATTEND.replace(*NARROW)
    assert " / " not in trip(source)
    over = source.replace("own = tl.max(scores, 1)", "own = tl.max(scores, 1) - 15.0")
    assert " / " in trip(over)  # exp(15) is more than fp16 holds
    assert " / " not in trip(over.replace("float16", "float32"))
