"""Numbers of a launch that become compile-time constants."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import pytest

pytest.importorskip("libcst")
from rewriting import HEADER, brief

from solkit.tuner.proposers.rewriter._mutation import Facts
from solkit.tuner.proposers.rewriter._parse import parse_kernel
from solkit.tuner.proposers.rewriter.canonical_form import canonical_form
from solkit.tuner.proposers.rewriter.fixed_numbers import FixedNumbers
from solkit.tuner.proposers.rewriter.tile_constants import Retile

POOL = """
def reference(x):
    return torch.nn.functional.avg_pool1d(x, 3, 2, 1)


def inputs(N=2, C=3, L=40, device="cuda"):
    return (torch.randn(N, C, L, device=device),)


@triton.jit
def pool(x, y, total, L, P, taps, step, pad, BLOCK: tl.constexpr):
    e = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    at = e % P * step - pad
    acc = tl.zeros([BLOCK], tl.float32)
    count = taps
    for t in range(taps):
        inside = (e < total) & (at + t >= 0) & (at + t < L)
        acc += tl.load(x + e // P * L + at + t, mask=inside, other=0.0)
    tl.store(y + e, acc / count, mask=e < total)


def kernel(x):
    N, C, L = x.shape
    P = (L - 1) // 2 + 1
    y = torch.empty((N, C, P), device=x.device)
    pool[(triton.cdiv(N * C * P, 64),)](x, y, N * C * P, L, P, 3, 2, 1, BLOCK=64)
    return y
"""
VALUES = {"total": 120, "L": 40, "P": 20, "taps": 3, "step": 2, "pad": 1}


def constants(source, **kinds):
    """Return the parameters that each variant makes constants, and the variants."""
    source = canonical_form(HEADER + source)
    arguments = {name: SimpleNamespace(value=value) for name, value in VALUES.items()}
    signature = {**dict.fromkeys(VALUES, "i32"), **kinds}
    launch = SimpleNamespace(
        name="pool", signature=signature, arguments=arguments, constants={}, grid=(2, 1, 1)
    )
    analysis = SimpleNamespace(own=(SimpleNamespace(launch=launch),))
    result = SimpleNamespace(gap=None, analysis=analysis)
    measured = replace(brief(source.removeprefix(HEADER)), result=result)  # type: ignore[arg-type]
    texts = [v.source for v in FixedNumbers().variants(parse_kernel(source), Facts(measured))]
    return [set(parse_kernel(t).functions["pool"].constants) - {"BLOCK"} for t in texts], texts


def test_settings_and_sizes_that_divide_are_constants(is_right):
    (names,), (text,) = constants(POOL)
    assert names == {"taps", "step", "pad", "P"}
    assert is_right(text, POOL)


@pytest.mark.parametrize(
    ("old", "new", "stays"),
    [
        ("acc / count", "tl.load(x + e) * step", "step"),  # a byte times a constant is a byte
        ("acc / count", "tl.where(e < total, acc, step)", "step"),
        ("e % P * step - pad", "e % P * step - (0 - pad) // 2", "pad"),  # is rounded towards 0
        ("e % P * step - pad", "e % P * step.to(tl.int64) - pad", "step"),
    ],
)
def test_numbers_that_give_values_their_types_stay(old, new, stays):
    names, _ = constants(POOL.replace(old, new))
    assert names
    assert all(stays not in constant for constant in names)


def test_only_integers_of_32_bits_are_constants():
    assert constants(POOL, step="i64", pad="fp32")[0] == [{"taps", "P"}]


def test_constants_that_say_what_is_computed_are_no_sizes_of_blocks():
    text = parse_kernel(constants(POOL)[1][0])
    variants = list(Retile().variants(text, Facts(brief(POOL))))
    assert all("taps" not in v.source.split("SPACE")[1].split("}")[0] for v in variants)
    assert all(", 3, 2, 1," in v.source for v in variants)


DROPOUT = """
@triton.jit
def drop(x, y, n, p, seed, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    drawn = tl.rand(seed, at)
    v = tl.load(x + at, mask=at < n)
    tl.store(y + at, tl.where({}, v / (1 - p), 0.0), mask=at < n)


def kernel(x):
    y = torch.empty_like(x)
    drop[(triton.cdiv(x.numel(), 64),)](x, y, x.numel(), {}, 1, BLOCK=64)
    return y
"""


@pytest.mark.parametrize(
    ("test", "chance", "result"),
    [
        ("drawn > p", "0.0", "at == at"),
        ("p <= tl.rand(seed, 2 * at)", "0", "(2 * at) == (2 * at)"),
        ("drawn < p", "0.0", "at != at"),
        ("drawn > p", "0.1", ""),
        ("drawn * 2 > p", "0.0", ""),
        ("at >= p", "0.0", ""),
    ],
)
def test_numbers_of_no_chance_are_not_drawn(test, chance, result):
    text = parse_kernel(HEADER + DROPOUT.format(test, chance))
    results = list(FixedNumbers().variants(text, Facts(brief(DROPOUT))))
    assert len(results) == bool(result)
    assert all(f"tl.where({result}, v / (1 - p), 0.0)" in new.source for new in results)


POWERS = """
def reference(x):
    return x.relu() ** 2


def inputs(N=40, device="cuda"):
    return (torch.randn(N, device=device),)


@triton.jit
def pool(x, y, N, alpha, BLOCK: tl.constexpr):
    e = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + e, mask=e < N, other=0.0)
    v = tl.where(v > 0, tl.exp2(1 / (alpha - 1) * tl.log2(v)), 0.0)
    tl.store(y + e, v, mask=e < N)


def kernel(x):
    y = torch.empty_like(x)
    pool[(triton.cdiv(x.numel(), 16),)](x, y, x.numel(), 1.5, BLOCK=16)
    return y
"""


@pytest.mark.parametrize(
    ("old", "new", "power"),
    [
        ("exp2(1", "exp2(1", "(v * v)"),
        ("1 / (alpha - 1) * tl.log2(v)", "tl.log2(v) * (alpha - 1)", "tl.sqrt(v)"),
        ("1.5, BLOCK", "0.0, BLOCK", "(1.0 / v)"),
        ("1.5, BLOCK", "1.2, BLOCK", ""),  # fp32 has no 1.2, so that 5 is not what runs
        ("1.5, BLOCK", "1.0, BLOCK", ""),
        ("log2(v)", "log(v)", ""),
        ("v > 0,", "v > -1,", ""),  # a logarithm is no number below 0
        ("v > 0,", "0 > v,", ""),
    ],
)
def test_powers_by_a_number_of_the_launch_are_products(old, new, power):
    variants = constants(POWERS.replace(old, new), alpha="fp32")[1]
    assert all(f"tl.where(v > 0, {power}, 0.0)" in variant for variant in variants)
    assert bool(variants) == bool(power)


def test_squares_of_what_is_above_zero_are_right(is_right):
    (variant,) = constants(POWERS, alpha="fp32")[1]
    assert is_right(variant, POWERS, N=40)
