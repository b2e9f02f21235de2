"""Parameters of functions, from their syntax trees."""

from __future__ import annotations

import ast
from collections.abc import Iterator

Definition = ast.FunctionDef | ast.AsyncFunctionDef


def parameters(node: Definition) -> list[ast.arg]:
    """Return a function's parameters that have names of their own."""
    return [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]


def default_pairs(node: Definition) -> Iterator[tuple[str, ast.expr]]:
    """Yield the names of parameters with defaults, and these."""
    positional = [*node.args.posonlyargs, *node.args.args]
    if node.args.defaults:
        for parameter, default in zip(positional[-len(node.args.defaults) :], node.args.defaults):
            yield parameter.arg, default
    for parameter, maybe in zip(node.args.kwonlyargs, node.args.kw_defaults):
        if maybe is not None:
            yield parameter.arg, maybe


def tile_number(node: ast.expr) -> int | None:
    """Return a number that a tile or an option may be: a power of two, or one below 8."""
    value = node.value if isinstance(node, ast.Constant) else None
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        return None
    return value if value & (value - 1) == 0 or value < 8 else None
