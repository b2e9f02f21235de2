"""Products in passes of tf32, where the bound says that the tolerance admits them."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import pytest
from rewriting import HEADER, brief

from solkit.core import PricedRoute
from solkit.tuner.proposers.rewriter._mutation import Facts
from solkit.tuner.proposers.rewriter._parse import parse_kernel
from solkit.tuner.proposers.rewriter.operands import Precision

PRODUCT = """
@triton.jit
def product(a, b, c, K, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    acc = tl.zeros((BLOCK, BLOCK), tl.float32)
    for k in range(0, K, BLOCK):
        x = tl.load(a + i[:, None] * K + k + i[None, :])
        w = tl.load(b + (k + i)[:, None] * BLOCK + i[None, :])
        acc += tl.dot(x, w, input_precision="ieee")
    tl.store(c + i[:, None] * BLOCK + i[None, :], acc)


def kernel(a, b):
    c = torch.empty(16, 16, device=a.device)
    product[(1,)](a, b, c, a.shape[1], BLOCK=16)
    return c
"""


def offered(source, routes=(), pipes=()):
    bound = SimpleNamespace(routes=tuple(routes), flops_by_pipe=dict.fromkeys(pipes, 1))
    result = SimpleNamespace(bound=bound, gap=None)
    text = parse_kernel(HEADER + source)
    facts = Facts(replace(brief(source, K=64), result=result))  # type: ignore[arg-type]
    return [variant.source for variant in Precision().variants(text, facts)]


def priced(route, error, kind="fp32", rate=1.0):
    return PricedRoute(kind, route, error, allowed=1e-3, rate=rate)


ONE, THREE = priced("tf32", 5e-4), priced("tf32 in 3 passes", 1e-5)


@pytest.mark.parametrize("words", ['input_precision="ieee"', "allow_tf32=False"])
def test_exact_products_take_the_passes_that_the_tolerance_admits(words):
    one, three = offered(PRODUCT.replace('input_precision="ieee"', words), [ONE, THREE])
    assert 'tl.dot(x, w, input_precision="tf32")' in one
    assert 'tl.dot(x, w, input_precision="tf32x3")' in three


def test_one_pass_that_is_too_coarse_is_not_offered():
    (only,) = offered(PRODUCT, [priced("tf32", 2e-3), THREE])
    assert "tf32x3" in only


@pytest.mark.parametrize(
    "routes",
    [
        (),
        (ONE, priced("tf32", 2e-3, "fp32 before an exponential")),  # one of two products
        (priced("tf32", 5e-4, rate=0.0),),  # the device has no such pipe
        (priced("tf32", 5e-4), priced("fp64", None, "fp64")),
    ],
)
def test_products_stay_exact_where_some_product_admits_nothing_else(routes):
    assert offered(PRODUCT, routes) == []


def test_factors_of_16_bits_are_exact_in_tf32():
    assert len(offered(PRODUCT, pipes=["tensor.bf16"])) == 2
    assert offered(PRODUCT, pipes=["fp32"]) == []


@pytest.mark.parametrize(
    "words", ['input_precision="tf32"', "allow_tf32=True", "out_dtype=tl.float32"]
)
def test_products_that_ask_for_nothing_exact_stay(words):
    assert offered(PRODUCT.replace('input_precision="ieee"', words), [ONE, THREE]) == []


SCORES = """
@triton.jit
def attend(q, k, v, o, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    at = i[:, None] * BLOCK + i[None, :]
    scores = tl.dot(tl.load(q + at), tl.load(k + at), input_precision="ieee")
    top = tl.max(scores, axis=1)
    weights = tl.exp(scores - top[:, None])
    tl.store(o + at, tl.dot(weights, tl.load(v + at), input_precision="ieee"))


def kernel(q, k, v):
    o = torch.empty_like(q)
    attend[(1,)](q, k, v, o, BLOCK=16)
    return o
"""
BEFORE = "fp32 before an exponential"


def test_products_before_an_exponential_take_more_passes_than_others():
    sensitive = priced("tf32", 2e-3, BEFORE), priced("tf32 in 3 passes", 1e-5, BEFORE)
    three, both = offered(SCORES, [ONE, THREE, *sensitive])
    assert three.count("tf32x3") == 2
    assert 'tl.load(k + at), input_precision="tf32x3")' in both
    assert 'tl.load(v + at), input_precision="tf32")' in both


def test_two_precisions_need_products_of_both_sorts():
    sensitive = priced("tf32", 2e-3, BEFORE), priced("tf32 in 3 passes", 1e-5, BEFORE)
    assert len(offered(PRODUCT, [ONE, THREE, *sensitive])) == 1
    coarse = priced("tf32", 2e-3), THREE
    assert len(offered(SCORES, [*coarse, *sensitive])) == 1
