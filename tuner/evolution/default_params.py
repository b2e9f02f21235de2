"""A kernel file with other parameters in use: the defaults of its entry point, changed in place."""

from __future__ import annotations

import ast
from collections.abc import Mapping

from solkit.core import Value
from solkit.core.parsing import syntax_tree

_BEHIND = {"ModelNew": "kernel"}
"""The function with the defaults of a class that hands its parameters on."""


def with_params(source: str, entry_point: str, params: Mapping[str, Value]) -> str:
    """Return the file's text with parameters as its entry point's defaults; the rest stays.

    A parameter with no default there is left out: `solkit` passes it by name.

    Args:
        source: the file.
        entry_point: the function that is called.
        params: by name.
    """
    changes = {
        place: repr(params[name])
        for name, place in _default_places(source, entry_point).items()
        if name in params and params[name] is not None
    }
    lines = source.splitlines(keepends=True)
    for line, start, end in sorted(changes, reverse=True):
        data = lines[line].encode()  # columns count bytes
        new = changes[line, start, end].encode()
        lines[line] = (data[:start] + new + data[end:]).decode()
    return "".join(lines)


def _default_places(source: str, entry_point: str) -> dict[str, tuple[int, int, int]]:
    """Return line, first byte and end of each default that stands on one line."""
    for node in syntax_tree(source).body:
        if isinstance(node, ast.FunctionDef) and node.name in (
            entry_point,
            _BEHIND.get(entry_point),
        ):
            return dict(_argument_defaults(node.args))
    return {}


def _argument_defaults(args: ast.arguments) -> list[tuple[str, tuple[int, int, int]]]:
    positional = [*args.posonlyargs, *args.args]
    pairs = [
        *zip(reversed(positional), reversed(args.defaults), strict=False),
        *zip(args.kwonlyargs, args.kw_defaults, strict=True),
    ]
    return [
        (argument.arg, (default.lineno - 1, default.col_offset, default.end_col_offset or 0))
        for argument, default in pairs
        if default is not None and default.lineno == default.end_lineno
    ]
