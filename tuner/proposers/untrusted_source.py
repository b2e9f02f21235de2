"""Reading Python that nobody trusts, without running it and in bounded time.

Python's own parser gives up on deep nesting with `RecursionError` or `MemoryError`, and functions
that walk a deep tree recursively overflow later. So size, line length, brackets and the length of a
statement are limited before parsing, and the depth of the tree after it.
"""

from __future__ import annotations

import ast
import enum
import io
import tokenize
import unicodedata
import warnings
from collections.abc import Iterator

from solkit.core.parsing import syntax_tree

MOST_SOURCE_BYTES = 96 << 10
_MOST_LINE = 4_000  # characters
_MOST_NESTED = 60  # brackets
_MOST_TOKENS = 8_000  # of one statement: its tree is no deeper
_MOST_DEPTH = 200  # of the tree; honest kernels stay under 40
_BROKEN = "\u2028\u2029\ufffd"  # lines to some readers only; bytes that were no UTF-8
_HIDING = {"Cf", "Cs", "Co"}  # bidirectional marks and the like: a reader sees other code


class Reason(str, enum.Enum):
    """Reason for refusing an answer."""

    EMPTY = "empty"
    NO_CODE = "no_code"
    SEVERAL_BLOCKS = "several_blocks"
    CUT_OFF = "cut_off"
    WRONG_LANGUAGE = "wrong_language"
    NO_INTENT = "no_intent"
    OVERSIZED = "oversized"
    CHARACTERS = "characters"
    NESTING = "nesting"
    SYNTAX = "syntax"
    NO_ENTRY = "no_entry"
    NO_JIT = "no_jit"
    PROBLEM = "problem"
    UNSAFE = "unsafe"
    CHEATING = "cheating"
    UNCHANGED = "unchanged"


class RefusedError(Exception):
    """An answer that is no proposal.

    Args:
        reason: its kind.
        why: one sentence, with the line where there is one.
    """

    def __init__(self, reason: Reason, why: str) -> None:
        self.reason, self.why = reason, why
        super().__init__(why)


def read_untrusted(source: str) -> ast.Module:
    """Return the tree of a source.

    Raises:
        RefusedError: it is too large, too deep, hides something, or is not Python.
    """
    _check_characters(source)
    _check_tokens(source)
    tree = parse_untrusted(source)
    if tree_depth(tree) > _MOST_DEPTH:
        raise RefusedError(Reason.NESTING, f"the code nests over {_MOST_DEPTH} levels deep")
    return tree


def tree_depth(tree: ast.AST) -> int:
    """Count the levels of a tree, without recursion."""
    deepest, todo = 0, [(tree, 1)]
    while todo:
        node, depth = todo.pop()
        deepest = max(deepest, depth)
        todo += [(child, depth + 1) for child in ast.iter_child_nodes(node)]
    return deepest


def _check_characters(source: str) -> None:
    size = len(source.encode("utf-8", "replace"))
    if size > MOST_SOURCE_BYTES:
        raise RefusedError(Reason.OVERSIZED, f"the code has {size} bytes, over {MOST_SOURCE_BYTES}")
    for number, line in enumerate(source.split("\n"), 1):
        if len(line) > _MOST_LINE:
            raise RefusedError(Reason.OVERSIZED, f"line {number} has over {_MOST_LINE} characters")
        for character in line if not (line.isascii() and line.isprintable()) else "":
            _check_character(character, number)
        if number <= 2 and line.lstrip().startswith("#") and _names_coding(line):
            raise RefusedError(Reason.CHARACTERS, f"line {number} declares an encoding")


def _check_character(character: str, line: int) -> None:
    kind = unicodedata.category(character)
    is_control = kind == "Cc" and character != "\t"
    if is_control or kind in _HIDING or character in _BROKEN:
        text = f"line {line} has the character U+{ord(character):04X}"
        raise RefusedError(Reason.CHARACTERS, text)


def _names_coding(comment: str) -> bool:
    """Tell whether Python would take a comment for an encoding declaration other than UTF-8."""
    _, marker, name = comment.replace("=", ":").partition("coding:")
    return bool(marker) and not name.strip().lower().startswith(("utf-8", "utf8"))


def _check_tokens(source: str) -> None:
    nested = tokens = 0
    for token in _read_tokens(source):
        tokens = 0 if token.type == tokenize.NEWLINE else tokens + 1
        nested += (token.string in "([{") - (token.string in ")]}") if token.string else 0
        if nested > _MOST_NESTED:
            text = f"line {token.start[0]} nests over {_MOST_NESTED} brackets"
            raise RefusedError(Reason.NESTING, text)
        if tokens > _MOST_TOKENS:
            text = f"the statement at line {token.start[0]} has over {_MOST_TOKENS} parts"
            raise RefusedError(Reason.NESTING, text)


def _read_tokens(source: str) -> Iterator[tokenize.TokenInfo]:
    try:
        yield from tokenize.generate_tokens(io.StringIO(source).readline)
    except (tokenize.TokenError, SyntaxError) as error:
        raise RefusedError(Reason.SYNTAX, f"the code is not Python: {error.args[0]}") from None


def parse_untrusted(source: str) -> ast.Module:
    """Return the tree of a source whose size and nesting are known to be harmless.

    Raises:
        RefusedError: it is not Python.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of escapes: nobody would know whose they are
        try:
            return syntax_tree(source)
        except SyntaxError as error:
            text = f"line {error.lineno} is not Python: {error.msg}"
            raise RefusedError(Reason.SYNTAX, text) from None
        except (RecursionError, MemoryError):
            text = "the code nests too deeply to be read"
            raise RefusedError(Reason.NESTING, text) from None
        except ValueError as error:  # null bytes
            raise RefusedError(Reason.SYNTAX, f"the code is not Python: {error}") from None
