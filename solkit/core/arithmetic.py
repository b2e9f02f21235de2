"""Arithmetic over named values, as written in a problem's or a launch's file.

No Python of the file runs: an expression is parsed, and may hold only what is listed here. Powers
have a size limit.
"""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable, Mapping
from typing import Any

from solkit.core.parsing import syntax_tree

Names = Mapping[str, Any]

_MOST_BITS = 4096  # of a power


def _bounded_power(base: Any, exponent: Any) -> Any:
    if abs(exponent) * math.log2(max(abs(base), 2)) > _MOST_BITS:
        raise OverflowError(f"{base} ** {exponent} is too large")
    return base**exponent


def _only_numbers(function: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """Return the same for numbers only: strings would be repeated or formatted."""

    def apply_checked(left: Any, right: Any) -> Any:
        if isinstance(left, (int, float)) and isinstance(right, (int, float)):
            return function(left, right)
        raise TypeError(f"{left!r} and {right!r} are not both numbers")

    return apply_checked


_OPERATORS: dict[type[ast.AST], Callable[..., Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: _only_numbers(operator.mul),
    ast.FloorDiv: operator.floordiv,
    ast.Mod: _only_numbers(operator.mod),
    ast.Div: operator.truediv,
    ast.Pow: _bounded_power,
    ast.UAdd: operator.pos,
    ast.USub: operator.neg,
    ast.Not: operator.not_,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}
FUNCTIONS: dict[str, Callable[..., Any]] = {
    "cdiv": lambda a, b: -(-a // b),
    "next_power_of_2": lambda n: 1 << (n - 1).bit_length(),
    "min": min,
    "max": max,
}
"""Functions that an expression may call."""

_CALLED: dict[str, Callable[..., Any]] = {
    **FUNCTIONS,
    "abs": abs,
    "bool": bool,
    "float": float,
    "int": int,
    "round": round,
}


def _value(node: ast.expr, names: Names) -> Any:
    """Return a node's value.

    Raises:
        SyntaxError: an expression may not hold this node.
    """
    match node:
        case ast.Constant(value=int() | float() | str() | None as value):
            return value
        case ast.Name(id=name):
            return names[name]
        case ast.UnaryOp():
            return _operator(node.op)(_value(node.operand, names))
        case ast.BinOp():
            return _operator(node.op)(_value(node.left, names), _value(node.right, names))
        case ast.BoolOp():
            parts = (_value(part, names) for part in node.values)
            return all(parts) if isinstance(node.op, ast.And) else any(parts)
        case ast.Compare():
            values = [_value(operand, names) for operand in (node.left, *node.comparators)]
            pairs = zip(node.ops, values, values[1:])
            return all(_operator(op)(first, second) for op, first, second in pairs)
        case ast.IfExp():
            return _value(node.body if _value(node.test, names) else node.orelse, names)
        case ast.Call(func=ast.Name(id=name), args=args, keywords=[]) if name in _CALLED:
            return _CALLED[name](*(_value(argument, names) for argument in args))
        case ast.Call():
            raise SyntaxError(f"{ast.unparse(node)}: may call only {', '.join(_CALLED)}")
    raise SyntaxError(f"{ast.unparse(node)} is not arithmetic")


def _operator(node: ast.AST) -> Callable[..., Any]:
    if type(node) not in _OPERATORS:
        raise SyntaxError(f"{type(node).__name__} is not an arithmetic operator")
    return _OPERATORS[type(node)]


def evaluate(expression: str, names: Names) -> Any:
    """Return the value of an expression for values by name.

    It may hold ``+ - * / // % **``, comparisons, ``and or not``, ``a if b else c``, numbers,
    strings, and calls of `FUNCTIONS` and of ``abs bool float int round``.

    Raises:
        ValueError: it holds anything else or cannot be computed; the message says why.
    """
    try:
        return _value(syntax_tree(expression.strip(), mode="eval").body, names)
    except (SyntaxError, RecursionError, MemoryError) as error:
        raise ValueError(f"{expression!r}: {error}") from error
    except KeyError as error:
        raise ValueError(f"no size is named {error}") from error
    except (TypeError, ZeroDivisionError, OverflowError) as error:
        raise ValueError(str(error)) from error


def names_in(text: str) -> frozenset[str]:
    """Return the names in an expression; none if the text is not one."""
    try:
        tree = ast.parse(text, mode="eval")
    except (SyntaxError, ValueError):
        return frozenset()
    return frozenset(node.id for node in ast.walk(tree) if isinstance(node, ast.Name))
