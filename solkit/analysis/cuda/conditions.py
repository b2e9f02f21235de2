"""Decide the conditions of ``#if``: integer expressions, after macros are expanded."""

from __future__ import annotations

import contextlib
import operator
from collections.abc import Callable, Mapping, Sequence

ALTERNATIVE_TOKENS = {
    **{"and": "&&", "or": "||", "not": "!", "bitand": "&", "bitor": "|", "xor": "^", "compl": "~"},
    **{"and_eq": "&=", "or_eq": "|=", "xor_eq": "^=", "not_eq": "!="},
}
"""Words that C++ reads as operators (C++20, [lex.digraph])."""

_LEVELS: tuple[Mapping[str, Callable[[int, int], int]], ...] = (
    {"||": lambda a, b: int(bool(a) or bool(b))},
    {"&&": lambda a, b: int(bool(a) and bool(b))},
    {"|": operator.or_},
    {"^": operator.xor},
    {"&": operator.and_},
    {"==": operator.eq, "!=": operator.ne},
    {"<": operator.lt, ">": operator.gt, "<=": operator.le, ">=": operator.ge},
    {"<<": operator.lshift, ">>": operator.rshift},
    {"+": operator.add, "-": operator.sub},
    {"*": operator.mul, "/": operator.floordiv, "%": operator.mod},
)
"""C's binary operators on integers, loosest first."""


def condition_holds(tokens: Sequence[str]) -> bool:
    """Return the value of a condition; false if it cannot be read.

    Args:
        tokens: without ``defined``; a name that is left has no definition, and counts as 0.
    """
    with contextlib.suppress(ValueError, IndexError, ArithmeticError):
        reader = _Reader([*(ALTERNATIVE_TOKENS.get(token, token) for token in tokens), ""])
        value = reader.ternary()
        return bool(value) and reader.text == ""
    return False


class _Reader:
    def __init__(self, tokens: Sequence[str]) -> None:
        self.tokens = tokens
        self.at = 0

    @property
    def text(self) -> str:
        return self.tokens[self.at]

    def ternary(self) -> int:
        condition = self.binary(0)
        if self.text != "?":
            return condition
        self.at += 1
        first = self.ternary()
        self.expect(":")
        second = self.ternary()
        return first if condition else second

    def binary(self, level: int) -> int:
        if level == len(_LEVELS):
            return self.unary()
        value = self.binary(level + 1)
        while self.text in _LEVELS[level]:
            apply = _LEVELS[level][self.text]
            self.at += 1
            value = int(apply(value, self.binary(level + 1)))
        return value

    def unary(self) -> int:
        text = self.text
        self.at += 1
        if text in ("!", "-", "+", "~"):
            value = self.unary()
            return {"!": int(not value), "-": -value, "+": value, "~": ~value}[text]
        if text == "(":
            value = self.ternary()
            self.expect(")")
            return value
        if text[:1].isdigit():
            bare = text.replace("'", "").rstrip("uUlLzZ")
            return int(bare, 8 if bare.isdigit() and bare[0] == "0" else 0)
        if text.startswith("__has_include"):  # a project includes what its builders have
            self.skip()
            return 1
        if text[:1].isalpha() or text[:1] == "_":
            if self.text == "(":
                self.skip()
            return int(text == "true")
        raise ValueError(text)

    def expect(self, text: str) -> None:
        if self.text != text:
            raise ValueError(self.text)
        self.at += 1

    def skip(self) -> None:
        """Skip a bracket and its content."""
        depth = 0
        while True:
            depth += (self.text == "(") - (self.text == ")")
            self.at += 1
            if not depth:
                return
            if self.text == "":
                raise ValueError("a bracket stays open")
