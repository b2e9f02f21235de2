"""Powers that are written by logarithms, where the exponent is known: products and roots.

``exp2(p * log2(x))`` takes two special functions, of which a multiprocessor computes 16 a cycle,
and 128 products (CUDA C++ Programming Guide, throughput of arithmetic instructions). The exponent
is a number of the launch, such as ``1 / (alpha - 1)`` with an ``alpha`` of 1.5.

A logarithm of a negative number is no number, and a square is one. So a power changes only where
``tl.where`` chooses it by ``x > 0``.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from dataclasses import replace
from fractions import Fraction

import libcst as cst

from solkit.tuner.proposers.rewriter._assignments import single_values
from solkit.tuner.proposers.rewriter._nodes import (
    Swap,
    argument_of,
    called_name,
    calls_within,
    expand_names,
    parse_expression,
    plain_code,
    render_code,
    replace_each,
)
from solkit.tuner.proposers.rewriter._operations import (
    FLIPPED,
    comparison_parts,
    conjuncts,
    is_operation,
    is_zero,
)
from solkit.tuner.proposers.rewriter._parse import JitFunction, Launch

_LOGARITHMS = {
    f"{place}{power}": (f"tl.{log}", f"tl.math.{log}")
    for power, log in (("exp", "log"), ("exp2", "log2"))
    for place in ("tl.", "tl.math.")
}
_FORMS = {
    Fraction(1): "({x})",
    Fraction(2): "({x} * {x})",
    Fraction(3): "({x} * {x} * {x})",
    Fraction(1, 2): "tl.sqrt({x})",
    Fraction(3, 2): "({x} * tl.sqrt({x}))",
    Fraction(-1): "(1.0 / {x})",
    Fraction(-1, 2): "tl.rsqrt({x})",
}


def with_plain_powers(launch: Launch) -> JitFunction | None:
    """Return a launch's function with products and roots for its powers; ``None`` if none can."""
    function = launch.function
    values = single_values(function.body, function.params)
    numbers = {
        name: number
        for name, argument in launch.arguments.items()
        if not function.reassigned(name) and (number := _literal(argument)) is not None
    }
    pairs = list[Swap]()
    for call in calls_within(function.node, "tl.where"):
        chosen, test = argument_of(call, 1, "x"), argument_of(call, 0, "condition")
        if chosen is None or test is None:
            continue
        positive = set(_positive(test))
        for power in calls_within(chosen, *_LOGARITHMS):
            base, exponent = _base_and_exponent(power, numbers, values)
            form = _FORMS.get(exponent) if exponent is not None else None
            if form is not None and isinstance(base, cst.Name) and base.value in positive:
                pairs.append((power, parse_expression(form.format(x=base.value))))
    return replace(function, node=replace_each(function.node, pairs)) if pairs else None


def _positive(test: cst.BaseExpression) -> Iterator[str]:
    """Yield names that are above zero where a test is true."""
    for part in conjuncts(test):
        first, sign, second = comparison_parts(part) or (part, "", part)
        if is_zero(first):
            first, sign, second = second, FLIPPED.get(sign, ""), first
        if sign == ">" and is_zero(second):
            yield render_code(first)


def _base_and_exponent(
    power: cst.Call, numbers: Mapping[str, Fraction], values: Mapping[str, cst.BaseExpression]
) -> tuple[cst.BaseExpression | None, Fraction | None]:
    """Return ``x`` and ``p`` of ``exp(p * log(x))``, of which nothing else is known: ``None``."""
    product = argument_of(power, 0, "x")
    if product is None or not is_operation(product, cst.Multiply):
        return None, None
    for logarithm, factor in ((product.right, product.left), (product.left, product.right)):
        if called_name(logarithm) in _LOGARITHMS[called_name(power)]:
            exponent = _number(expand_names(factor, values.get), numbers)
            return argument_of(logarithm, 0, "x"), exponent
    return None, None


def _number(node: cst.BaseExpression, numbers: Mapping[str, Fraction]) -> Fraction | None:
    """Return an expression's value, exact; ``None`` if it is not known."""
    if isinstance(node, cst.Name):
        return numbers.get(node.value)
    if not isinstance(node, cst.BinaryOperation):
        return _literal(node)
    first, second = _number(node.left, numbers), _number(node.right, numbers)
    if first is None or second is None:
        return None
    if isinstance(node.operator, cst.Add):
        return first + second
    if isinstance(node.operator, cst.Subtract):
        return first - second
    if isinstance(node.operator, cst.Multiply):
        return first * second
    return first / second if isinstance(node.operator, cst.Divide) and second else None


def _literal(node: cst.BaseExpression) -> Fraction | None:
    """Return a number as it is written, if fp32 has it: a launch hands no other on."""
    try:
        value = float(plain_code(node))
        is_exact = struct.unpack("f", struct.pack("f", value))[0] == value
    except (ValueError, OverflowError):
        return None
    return Fraction(value) if is_exact and abs(value) < float("inf") else None
