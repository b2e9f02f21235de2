"""Arithmetic over named sizes, as it stands in the text of a problem: no Python is run."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping
from typing import Any

__all__ = ["FUNCTIONS", "evaluate"]

_BINARY: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Div: operator.truediv,
    ast.Pow: operator.pow,
}
_UNARY: dict[type[ast.unaryop], Callable[[Any], Any]] = {
    ast.UAdd: operator.pos,
    ast.USub: operator.neg,
}
FUNCTIONS: dict[str, Callable[..., Any]] = {
    "cdiv": lambda a, b: -(-a // b),
    "next_power_of_2": lambda n: 1 << (n - 1).bit_length(),
    "min": min,
    "max": max,
}
"""What may be called by name."""


def evaluate(expression: str, names: Mapping[str, Any]) -> Any:
    """The value of ``+ - * / // % **``, parentheses, numbers, `names` and `FUNCTIONS`.

    Raises:
        ValueError: it is something else, or cannot be computed; says why.
    """
    try:
        return _value(ast.parse(expression.strip(), mode="eval").body, names)
    except KeyError as error:
        raise ValueError(f"no size is named {error}") from error
    except (SyntaxError, TypeError, ZeroDivisionError, OverflowError) as error:
        raise ValueError(str(error)) from error


def _value(node: ast.expr, names: Mapping[str, Any]) -> Any:
    if isinstance(node, ast.Constant):
        return node.value
    if isinstance(node, ast.Name):
        return names[node.id]
    if isinstance(node, ast.UnaryOp) and type(node.op) in _UNARY:
        return _UNARY[type(node.op)](_value(node.operand, names))
    if isinstance(node, ast.BinOp) and type(node.op) in _BINARY:
        return _BINARY[type(node.op)](_value(node.left, names), _value(node.right, names))
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        return FUNCTIONS[node.func.id](*(_value(a, names) for a in node.args))
    raise SyntaxError(f"{ast.unparse(node)} is no arithmetic")
