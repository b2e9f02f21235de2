"""Operands that were widened under the name that they were loaded with, and weights of trips."""

from __future__ import annotations

import pytest
from rewriting import variants
from test_loop_ends import CAUSAL, DIVIDED, canonical

from solkit.tuner.proposers.rewriter._nodes import parse_expression
from solkit.tuner.proposers.rewriter._products import as_product
from solkit.tuner.proposers.rewriter.operands import Operands


def widened(source):
    """The same with operands in fp32 under the names of what was loaded."""
    for name in "kv":
        pointer = f"{name.upper()} + cols[:, None] * D + d[None, :]"
        load = f"{name} = tl.load({pointer}, mask=cols[:, None] < S, other=0.0)"
        assert load in source
        source = source.replace(load, f"{load}\n        {name} = {name}.to(tl.float32)")
    rows = "mask=rows[:, None] < S, other=0.0)\n    top"
    assert rows in source
    return source.replace(rows, rows.replace("\n", "\n    q = q.to(tl.float32)\n"))


@pytest.mark.parametrize("source", [CAUSAL, DIVIDED])
def test_operands_stay_as_they_were_loaded(is_right, source):
    wide = widened(source)
    (variant,) = variants(Operands(), canonical(wide), S=40)
    assert ".to(tl.float32)" not in variant
    assert ".to(v_2.dtype)" in variant  # the weights
    assert is_right(variant, wide, S=40)


def test_what_else_reads_the_wide_value_keeps_it():
    wide = widened(CAUSAL).replace("        top = new\n", "        top = new + 0.0 * tl.sum(k)\n")
    narrowed = variants(Operands(), canonical(wide), S=40)
    assert all("k.to(tl.float32)" in variant for variant in narrowed)


def test_weights_over_another_sum_may_be_large():
    wide = widened(DIVIDED).replace("p / sums[:, None]", "p / total[:, None]")
    narrowed = variants(Operands(), canonical(wide), S=40)
    assert all("v.to(tl.float32)" in variant for variant in narrowed)


def test_a_sum_of_wide_weights_and_loaded_values_becomes_a_product_of_one_type(is_right):
    """Arithmetic widens 16 bits next to fp32; a product of blocks does not."""
    product = 'tl.dot(p, v, input_precision="ieee")'
    assert product in CAUSAL
    source = CAUSAL.replace(product, "tl.sum(p[:, :, None] * v[None, :, :], axis=1)")
    (variant,) = variants(Operands(), canonical(source), S=40)
    assert 'tl.dot(p, v.to(tl.float32), input_precision="ieee")' in variant
    assert is_right(variant, source, S=40)


@pytest.mark.parametrize(
    "product",
    [
        "q.to(tl.float32)[:, None, :] * k[None, :, :]",
        "q[:, None, :].to(tl.float32) * k[None, :, :]",
        "k[None, :, :] * q[:, None, :].to(tl.float32)",
    ],
)
def test_factors_that_are_widened_behind_their_axes_are_a_product(product):
    exact = 'tl.dot(q.to(tl.float32), tl.trans(k), input_precision="ieee")'
    assert as_product(parse_expression(product), 2) == exact


def test_a_factor_of_a_function_of_its_axes_is_none():
    assert not as_product(parse_expression("tl.exp(q[:, None, :]) * k[None, :, :]"), 2)
