"""Scales of rows or columns are applied to sums of products, not to each operand."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass

import libcst as cst

from solkit.tuner.proposers.rewriter._edit import changed_text
from solkit.tuner.proposers.rewriter._mutation import Facts, Variant
from solkit.tuner.proposers.rewriter._parse import (
    JitFunction,
    KernelText,
    Loop,
    argument_of,
    assigned_names,
    called_name,
    calls_within,
    count_uses,
    names_within,
    nodes_within,
    parenthesized,
    parse_expression,
    parse_statement,
    render_code,
    replace_each,
    single_assignment,
    with_each,
)
from solkit.tuner.proposers.rewriter.operands import without_widening

__all__ = ["Scales"]

_SPREAD = {0: "[:, None]", 1: "[None, :]"}
"""Subscripts that spread a scale of rows or columns over the first or the second operand."""

Pairs = list[tuple[cst.CSTNode, cst.CSTNode]]


class Scales:
    """``sum(x * (w * s))`` becomes ``sum(x * w) * s``, where the scale ``s`` is not summed over.

    Applies to the one product of a loop, whose sums begin at zero and are used after the loop. The
    operand that had the scale then gets the type of the other one. Quantised weights are exact
    there; others are rounded to it, which the tolerance has to allow.
    """

    kind = "scale last"
    helps = ("wrong pipe", "conversions", "instructions", "extra work")

    def variants(self, text: KernelText, facts: Facts) -> Iterator[Variant]:
        """See `Rewrite.variants`."""
        new = {}
        for name, function in text.functions.items():
            node = next(filter(None, (_scaled_last(function, e) for e in function.loops)), None)
            if node is not None:
                new[name] = node
        if new:
            why = facts.explain_factors("wrong pipe")
            yield Variant(
                changed_text(text, functions=new),
                f"In {', '.join(new)} scales are applied once, to the sums, and operands stay as "
                f"narrow as they were loaded{why}.",
            )


@dataclass(frozen=True)
class _Sum:
    """The one sum of products of a loop.

    Attributes:
        name: of the sums.
        dot: the product.
        loop: that adds it.
        function: that the loop is in.
    """

    name: str
    dot: cst.Call
    loop: Loop
    function: JitFunction

    def value(self, side: int) -> cst.BaseExpression:
        """Return an operand, or what its name is assigned for this product alone."""
        operand = self.dot.args[side].value
        if not isinstance(operand, cst.Name):
            return operand
        bindings = [
            m for s in self.loop.body if (m := single_assignment(s)) and m.target == operand.value
        ]
        is_own = len(bindings) == 1 and count_uses(self.function.node, operand.value) == 2
        return bindings[0].value if is_own and not bindings[0].operator else operand

    def is_fixed(self, node: cst.CSTNode) -> bool:
        """Tell whether an expression is the same in all trips."""
        return not names_within(node) & {self.loop.name, *assigned_names(*self.loop.body)}


def _scaled_last(function: JitFunction, loop: Loop) -> cst.FunctionDef | None:
    total = _scaled_sum(function, loop)
    if total is None:
        return None
    for side in (1, 0):
        value = total.value(side)
        if (parts := _value_and_scale(total, value, side)) is None:
            continue
        rest, scale = parts
        scaled_loop = replace_each(loop.node, _without_scale(total, side, value, rest))
        after = parse_statement(f"{total.name} = {total.name} * {render_code(scale)}")
        return with_each(function.node, {id(loop.node): [scaled_loop, after]})
    return None


def _scaled_sum(function: JitFunction, loop: Loop) -> _Sum | None:
    """Return the sum that a loop's only product goes to, if nothing else in the loop uses it."""
    dots = calls_within(loop.node, "tl.dot")
    for statement in loop.body:
        binding = single_assignment(statement)
        if (
            len(dots) != 1
            or binding is None
            or not any(e is dots[0] for e in nodes_within(binding.operand))
        ):
            continue
        name, dot = binding.target, dots[0]
        adds = binding.operand is dot and (
            binding.operator == "+="
            or render_code(argument_of(dot, 2, "acc") or cst.Name("_")) == name
        )
        before = list(
            itertools.takewhile(lambda statement: statement is not loop.node, function.body)
        )
        starts = [m for s in before if (m := single_assignment(s)) and m.target == name]
        begins = len(starts) == 1 and called_name(starts[0].value) == "tl.zeros"
        begins = begins and assigned_names(*before).count(name) == 1  # nothing was added since
        if adds and begins and count_uses(loop.node, name) == (1 if binding.operator else 2):
            return _Sum(name, dot, loop, function)
    return None


def _value_and_scale(
    total: _Sum, value: cst.BaseExpression, side: int
) -> tuple[cst.BaseExpression, cst.BaseExpression] | None:
    """Return an operand without its scale, and the scale."""
    if not isinstance(value, cst.BinaryOperation):
        return None
    if not isinstance(value.operator, cst.Multiply):
        return None
    for rest, scale in ((value.left, value.right), (value.right, value.left)):
        is_spread = isinstance(scale, cst.Subscript) and render_code(scale).endswith(_SPREAD[side])
        if is_spread and total.is_fixed(scale):
            return rest, scale
    return None


def _without_scale(
    total: _Sum, side: int, value: cst.BaseExpression, rest: cst.BaseExpression
) -> Pairs:
    """Return changes that leave the scale out and give the operand the other one's type."""
    other, operand = total.value(1 - side), total.dot.args[side].value
    plain, own = without_widening(other), without_widening(rest)
    if not isinstance(plain, cst.Name):
        return [(value, rest)]
    pairs: Pairs = [] if plain is other else [(other, plain)]
    if value is operand:  # written in place
        return [
            *pairs,
            (
                operand,
                parse_expression(f"{render_code(parenthesized(own))}.to({plain.value}.dtype)"),
            ),
        ]
    cast = parse_expression(
        f"{render_code(operand)}.to({plain.value}.dtype)"
    )  # the other one is loaded there
    return [*pairs, (value, own), (operand, cast)]
