"""Arithmetic over named values, as written in a problem or a tuner's file.

No Python of the file runs: an expression is parsed into nested functions and may hold only what is
listed here. Powers, lists and strings have a size limit.
"""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from solkit.core.parsing import syntax_tree

Names = Mapping[str, Any]
_Function = Callable[[Names], Any]

_MOST_ITEMS = 1_000_000  # of a list
_MOST_BITS = 4096  # of a power


def _bounded_power(base: Any, exponent: Any) -> Any:
    if abs(exponent) * math.log2(max(abs(base), 2)) > _MOST_BITS:
        raise OverflowError(f"{base} ** {exponent} is too large")
    return base**exponent


def _add_numbers_or_lists(left: Any, right: Any) -> Any:
    lists = [
        _bounded_list(operand) if isinstance(operand, range) else operand
        for operand in (left, right)
    ]
    return operator.add(*lists)


def _only_numbers(function: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """Return the same for numbers only: strings and lists would be repeated or formatted."""

    def apply_checked(left: Any, right: Any) -> Any:
        if isinstance(left, (int, float)) and isinstance(right, (int, float)):
            return function(left, right)
        raise TypeError(f"{left!r} and {right!r} are not both numbers")

    return apply_checked


def _bounded_list(items: Iterable[Any]) -> list[Any]:
    result: list[Any] = []
    for item in items:
        if len(result) == _MOST_ITEMS:
            raise OverflowError(f"a list has more than {_MOST_ITEMS:,} items")
        result.append(item)
    return result


_BINARY: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: _add_numbers_or_lists,
    ast.Sub: operator.sub,
    ast.Mult: _only_numbers(operator.mul),
    ast.FloorDiv: operator.floordiv,
    ast.Mod: _only_numbers(operator.mod),
    ast.Div: operator.truediv,
    ast.Pow: _bounded_power,
}
_UNARY: dict[type[ast.unaryop], Callable[[Any], Any]] = {
    ast.UAdd: operator.pos,
    ast.USub: operator.neg,
    ast.Not: operator.not_,
}
_COMPARED: dict[type[ast.cmpop], Callable[[Any, Any], bool]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.In: lambda a, b: a in b,
    ast.NotIn: lambda a, b: a not in b,
}
FUNCTIONS: dict[str, Callable[..., Any]] = {
    "cdiv": lambda a, b: -(-a // b),
    "next_power_of_2": lambda n: 1 << (n - 1).bit_length(),
    "min": min,
    "max": max,
}
"""Functions that an expression may call."""

_LIST_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "abs": abs,
    "bool": bool,
    "float": float,
    "int": int,
    "len": len,
    "list": lambda items: items if isinstance(items, range) else _bounded_list(items),
    "range": range,
    "round": round,
}
_CALLED = {**FUNCTIONS, **_LIST_FUNCTIONS}
_CONSTANTS = {"true": True, "false": False}


@dataclass(frozen=True)
class Expression:
    """A parsed expression.

    It may hold ``+ - * / // % **``, comparisons, ``and or not in``, ``a if b else c``, numbers,
    strings, lists, list comprehensions over one variable, and calls of `FUNCTIONS` and of ``abs
    bool float int len list range round``.

    Attributes:
        text: as written in the file.
        names: the names whose values it needs.
        value: computes it from values by name; raises what arithmetic raises.
    """

    text: str
    names: tuple[str, ...]
    value: Callable[[Mapping[str, Any]], Any]

    @classmethod
    def read(cls, text: str) -> Expression:
        """Parse an expression.

        Raises:
            ValueError: it holds anything else.
        """
        try:
            body = syntax_tree(text.strip(), mode="eval").body
            value = _compile_node(body)
        except (SyntaxError, RecursionError, MemoryError) as error:
            raise ValueError(f"{text!r}: {error}") from error
        names = [node for node in ast.walk(body) if isinstance(node, ast.Name)]
        bound = {name.id for name in names if isinstance(name.ctx, ast.Store)}
        defined = bound | {*_CALLED, *_CONSTANTS}
        return cls(text, tuple(dict.fromkeys(n.id for n in names if n.id not in defined)), value)


def _compile_node(node: ast.expr) -> _Function:
    """Return the function of a node's value.

    Raises:
        SyntaxError: an expression may not hold this node.
    """
    read = _NODES.get(type(node))
    if read is None:
        raise SyntaxError(f"{ast.unparse(node)} is not arithmetic")
    return read(node)


def _compile_constant(node: Any) -> _Function:
    value = node.value
    if not isinstance(value, (int, float, str, type(None))):
        raise SyntaxError(f"{value!r} is not a number or string")
    return lambda _: value


def _compile_name(node: Any) -> _Function:
    name = node.id
    if name in _CONSTANTS:
        return lambda names: names.get(name, _CONSTANTS[name])
    return lambda names: names[name]


def _compile_unary(node: Any) -> _Function:
    function, operand = _allowed_operator(_UNARY, node.op), _compile_node(node.operand)
    return lambda names: function(operand(names))


def _compile_binary(node: Any) -> _Function:
    function, left, right = (
        _allowed_operator(_BINARY, node.op),
        _compile_node(node.left),
        _compile_node(node.right),
    )
    return lambda names: function(left(names), right(names))


def _compile_bool_op(node: Any) -> _Function:
    parts = [_compile_node(value) for value in node.values]
    if isinstance(node.op, ast.And):
        return lambda names: all(part(names) for part in parts)
    return lambda names: any(part(names) for part in parts)


def _compile_comparison(node: Any) -> _Function:
    functions = [_allowed_operator(_COMPARED, op) for op in node.ops]
    first, *others = (_compile_node(operand) for operand in (node.left, *node.comparators))

    def compare_chain(names: Names) -> bool:
        left = first(names)
        for function, other in zip(functions, others):
            right = other(names)
            if not function(left, right):
                return False
            left = right
        return True

    return compare_chain


def _compile_conditional(node: Any) -> _Function:
    test, yes, no = _compile_node(node.test), _compile_node(node.body), _compile_node(node.orelse)
    return lambda names: yes(names) if test(names) else no(names)


def _compile_call(node: Any) -> _Function:
    name = node.func.id if isinstance(node.func, ast.Name) else ""
    if name not in _CALLED or node.keywords:
        raise SyntaxError(f"{ast.unparse(node)}: may call only {', '.join(_CALLED)}")
    function, arguments = _CALLED[name], [_compile_node(arg) for arg in node.args]
    return lambda names: function(*(argument(names) for argument in arguments))


def _compile_list(node: Any) -> _Function:
    items = [_compile_node(element) for element in node.elts]
    return lambda names: [item(names) for item in items]


def _compile_comprehension(node: Any) -> _Function:
    (loop, *more), item = node.generators, _compile_node(node.elt)
    if more or loop.is_async or not isinstance(loop.target, ast.Name):
        raise SyntaxError(f"{ast.unparse(node)} has more than one variable")
    name, items = loop.target.id, _compile_node(loop.iter)
    tests = [_compile_node(condition) for condition in loop.ifs]

    def evaluate_items(names: Names) -> list[Any]:
        scopes = ({**names, name: value} for value in items(names))
        return _bounded_list(item(scope) for scope in scopes if all(test(scope) for test in tests))

    return evaluate_items


def _allowed_operator(
    operators: Mapping[Any, Callable[..., Any]], node: ast.AST
) -> Callable[..., Any]:
    if type(node) not in operators:
        raise SyntaxError(f"{type(node).__name__} is not an arithmetic operator")
    return operators[type(node)]


_NODES: dict[type[ast.expr], Callable[[Any], _Function]] = {
    ast.BinOp: _compile_binary,
    ast.BoolOp: _compile_bool_op,
    ast.Call: _compile_call,
    ast.Compare: _compile_comparison,
    ast.Constant: _compile_constant,
    ast.IfExp: _compile_conditional,
    ast.List: _compile_list,
    ast.ListComp: _compile_comprehension,
    ast.Name: _compile_name,
    ast.Tuple: _compile_list,
    ast.UnaryOp: _compile_unary,
}


def evaluate(expression: str, names: Mapping[str, Any]) -> Any:
    """Return the value of an `Expression` for values by name.

    Raises:
        ValueError: it is not such an expression or cannot be computed; the message says why.
    """
    try:
        return Expression.read(expression).value(names)
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
