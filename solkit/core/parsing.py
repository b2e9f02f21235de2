"""Python's syntax trees, parsed by several threads at once."""

from __future__ import annotations

import ast
import threading
from typing import Any, Literal, overload

_PARSING = threading.Lock()
_TRIES = 20


@overload
def syntax_tree(
    source: str | bytes, filename: str = ..., mode: Literal["exec"] = ...
) -> ast.Module: ...
@overload
def syntax_tree(
    source: str | bytes, filename: str = ..., *, mode: Literal["eval"]
) -> ast.Expression: ...
def syntax_tree(source: str | bytes, filename: str = "<unknown>", mode: str = "exec") -> Any:
    """Parse as `ast.parse` does, safely in threads.

    CPython 3.11 counts the depth of the tree that it builds in one place for all threads. Two
    threads that parse at once may raise ``SystemError: AST constructor recursion depth mismatch``,
    though neither text is at fault (python/cpython, issue 106905 and pull request 113035). The
    lock keeps our own threads apart. Where a thread of another library parses meanwhile, the
    text is parsed again.

    Raises:
        SyntaxError, ValueError, RecursionError, MemoryError: as `ast.parse` raises them.
    """
    with _PARSING:
        for _ in range(_TRIES - 1):
            try:
                return ast.parse(source, filename, mode)
            except SystemError:
                continue
        return ast.parse(source, filename, mode)
