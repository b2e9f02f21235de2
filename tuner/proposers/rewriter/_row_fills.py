"""Values that lanes beyond a row's end bring to a reduction, by what masked loads fill them with.

A row that is cut elsewhere has other lanes beyond its ends. Its sum stays the same if these are 0,
its maximum if they are lowest, its minimum if they are highest. A maximum of values filled with 0
is right only for rows that fill their blocks, or have a value above 0.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from dataclasses import dataclass

import libcst as cst

from solkit.tuner.proposers.rewriter._nodes import (
    argument_of,
    called_name,
    compact_code,
    render_code,
)
from solkit.tuner.proposers.rewriter._operations import call_args, compared_sides

_LEAST_EXTREME = 60_000.0
"""Fills that count as lowest or highest: half-precision kernels write 65504 for infinity."""
_POWERS = ("exp", "exp2")
_KEEP_ZERO = ("abs", "sqrt", "tanh", "sin", "floor", "ceil", "expm1", "log1p")
_CHOICES = {"maximum": "LOWEST", "max": "LOWEST", "minimum": "HIGHEST", "min": "HIGHEST"}


class Fill(enum.Enum):
    """Value of all lanes beyond a row's end."""

    ZERO = 0
    LOWEST = -1
    HIGHEST = 1


_NEUTRAL = {"tl.sum": Fill.ZERO, "tl.max": Fill.LOWEST, "tl.min": Fill.HIGHEST}
_NEUTRAL |= {"tl.argmax": Fill.LOWEST, "tl.argmin": Fill.HIGHEST}
_NEGATIVE = {Fill.ZERO: Fill.ZERO, Fill.LOWEST: Fill.HIGHEST, Fill.HIGHEST: Fill.LOWEST}


@dataclass(frozen=True)
class RowFills:
    """Evaluates expressions for the lanes beyond a row's end.

    Attributes:
        is_false: tells whether a condition does not hold for them.
    """

    is_false: Callable[[cst.BaseExpression], bool]

    def are_neutral(self, node: cst.CSTNode) -> bool:
        """Tell whether lanes beyond the end change none of the reductions in an expression."""
        name = called_name(node)
        if isinstance(node, cst.Call) and name in _NEUTRAL and node.args:
            value = node.args[0].value
            is_place = name == "tl.min" and self._is_place_of_extremum(value)
            if not is_place and self.fill(value) is not _NEUTRAL[name]:
                return False
        return all(map(self.are_neutral, node.children))

    def _is_place_of_extremum(self, node: cst.BaseExpression) -> bool:
        """Tell whether a node is ``where(x == max(x), ...)``, which holds in no such lane."""
        if called_name(node) != "tl.where" or not isinstance(node, cst.Call):
            return False
        sides = compared_sides(node.args[0].value, "==") or ()
        return any(self.fill(side) in (Fill.LOWEST, Fill.HIGHEST) for side in sides)

    def fill(self, node: cst.BaseExpression) -> Fill | None:
        """Return what an expression is in the lanes beyond the end; ``None`` if not known."""
        literal = _literal(node)
        if literal is not None:
            is_extreme = abs(literal) >= _LEAST_EXTREME
            return Fill((literal > 0) - (literal < 0)) if is_extreme or not literal else None
        if isinstance(node, cst.UnaryOperation) and isinstance(node.operator, cst.Minus):
            inner = self.fill(node.expression)
            return None if inner is None else _NEGATIVE[inner]
        if self.is_false(node):
            return Fill.ZERO
        if isinstance(node, cst.BinaryOperation):
            return self._of_operation(node)
        return self._of_call(node) if isinstance(node, cst.Call) else None

    def _of_operation(self, node: cst.BinaryOperation) -> Fill | None:
        one, other = self.fill(node.left), self.fill(node.right)
        extremes = {one, other} & {Fill.LOWEST, Fill.HIGHEST}
        if isinstance(node.operator, (cst.Multiply, cst.BitAnd)) and Fill.ZERO in (one, other):
            return None if extremes and "inf" in render_code(node) else Fill.ZERO  # 0 inf is none
        if isinstance(node.operator, cst.Add):
            return self._sum(one, other)
        if isinstance(node.operator, cst.Subtract):
            return self._sum(one, None if other is None else _NEGATIVE[other])
        if isinstance(node.operator, cst.Multiply) and len(extremes) == 1:
            return one or other if None in (one, other) else None
        return one if isinstance(node.operator, cst.Divide) and other is None else None

    @staticmethod
    def _sum(one: Fill | None, other: Fill | None) -> Fill | None:
        """Return the fill of a sum; what is not known is taken to be finite."""
        extremes = {one, other} & {Fill.LOWEST, Fill.HIGHEST}
        if one is other is Fill.ZERO:
            return Fill.ZERO
        return extremes.pop() if len(extremes) == 1 else None

    def _of_call(self, node: cst.Call) -> Fill | None:
        name = called_name(node).rsplit(".", 1)[-1]
        values = call_args(node)
        if name == "load":
            mask, fill = argument_of(node, 1, "mask"), argument_of(node, 2, "other")
            is_beyond = mask is not None and self.is_false(mask)
            return None if not is_beyond else self.fill(fill) if fill is not None else Fill.ZERO
        if name == "where" and len(values) == 3:
            first, second = (self.fill(value) for value in values[1:])
            return second if first is second or self.is_false(values[0]) else None
        if name == "to" and isinstance(node.func, cst.Attribute):
            return self.fill(node.func.value)
        fills = [self.fill(value) for value in values]
        if name in _POWERS and fills == [Fill.LOWEST]:
            return Fill.ZERO
        if name in _CHOICES and len(fills) == 2:
            return self._of_choice(Fill[_CHOICES[name]], *fills)
        if name == "cast" or (name in _KEEP_ZERO and fills[:1] == [Fill.ZERO]):
            return fills[0]
        return None

    @staticmethod
    def _of_choice(weakest: Fill, one: Fill | None, other: Fill | None) -> Fill | None:
        """Return the fill of an extremum of two, where one of them never counts."""
        return other if one is weakest else one if other in (weakest, one) else None


def _literal(node: cst.BaseExpression) -> float | None:
    """Return the value of a number, or of ``float("inf")``, with its sign."""
    text = compact_code(node).replace("(", "").replace(")", "")
    for quote in ('"', "'"):
        text = text.replace(f"float{quote}", "").replace(quote, "")
    sign = -1.0 if text.startswith("-") else 1.0
    text = text.lstrip("-+")
    if "inf" in text.split("."):
        return sign * float("inf")
    try:
        return sign * float(text)
    except ValueError:
        return None
