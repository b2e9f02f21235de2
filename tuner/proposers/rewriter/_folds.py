"""Operations that may be done in any grouping: a loop over them can be taken apart.

A trip makes a new state of its own and of what it brings, ``s' = F(s, e)``. Trips may be grouped if
what is brought is a state too, ``F(0, e) = e``, and F is associative. Both are tried with
fractions, which are exact. F is made of ``+ - * /``, so it is a quotient of polynomials: two that
differ have the same value at a random place with a chance of about their degree over the number of
places. Welford's moments, as Chan's formula joins them, are such a fold.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from fractions import Fraction

import libcst as cst

from solkit.tuner.proposers.rewriter._nodes import Values, substitute_names

_TRIALS = 3
_PLACES = 10**6

_State = dict[str, Fraction]


def as_fold(values: Values, brought: Sequence[str]) -> dict[str, cst.BaseExpression]:
    """Return a fold's next values over `own_x` and `new_x`; none if it is not associative.

    Args:
        values: the next value of each `x`, over `own_x` of what is carried and what is brought.
        brought: names of the latter.
    """
    if len(brought) != len(values) or any(not _is_rational(value) for value in values.values()):
        return {}
    chance = random.Random(0)
    try:
        of_name = _matched(values, brought, chance)
        is_fold = of_name and all(_is_associative(values, of_name, chance) for _ in range(_TRIALS))
    except ZeroDivisionError:
        return {}
    if not is_fold:
        return {}
    new = {name: cst.Name(f"new_{target}") for name, target in of_name.items()}
    return {name: substitute_names(value, new) for name, value in values.items()}


def _is_rational(node: cst.BaseExpression) -> bool:
    if isinstance(node, cst.BinaryOperation):
        plain = isinstance(node.operator, (cst.Add, cst.Subtract, cst.Multiply, cst.Divide))
        return plain and _is_rational(node.left) and _is_rational(node.right)
    return isinstance(node, (cst.Name, cst.Integer, cst.Float))


def _matched(values: Values, brought: Sequence[str], chance: random.Random) -> dict[str, str]:
    """Return which part of the state each brought name is; none if they are no state."""
    drawn = {name: _draw(chance) for name in brought}
    after = _next(values, dict.fromkeys(values, Fraction(0)), drawn)
    places = {value: name for name, value in after.items()}
    result = {name: places[value] for name, value in drawn.items() if value in places}
    return result if len(set(result.values())) == len(values) else {}


def _is_associative(values: Values, of_name: Mapping[str, str], chance: random.Random) -> bool:
    one, two, three = ({name: _draw(chance) for name in values} for _ in range(3))

    def joined(first: _State, second: _State) -> _State:
        return _next(values, first, {name: second[target] for name, target in of_name.items()})

    return joined(joined(one, two), three) == joined(one, joined(two, three))


def _draw(chance: random.Random) -> Fraction:
    return Fraction(chance.randint(1, _PLACES), chance.randint(1, _PLACES))


def _next(values: Values, state: _State, brought: Mapping[str, Fraction]) -> _State:
    names = {**{f"own_{name}": value for name, value in state.items()}, **brought}
    return {name: _value(value, names) for name, value in values.items()}


def _value(node: cst.BaseExpression, names: Mapping[str, Fraction]) -> Fraction:
    if isinstance(node, cst.Name):
        return names[node.value]
    if isinstance(node, (cst.Integer, cst.Float)):
        return Fraction(node.value)
    operation = cst.ensure_type(node, cst.BinaryOperation)
    first, second = _value(operation.left, names), _value(operation.right, names)
    if isinstance(operation.operator, cst.Add):
        return first + second
    if isinstance(operation.operator, cst.Subtract):
        return first - second
    return first * second if isinstance(operation.operator, cst.Multiply) else first / second
