"""The size of the house and its dialect: ``python bench/lines.py`` (`--rooms` for a line a room).

Product lines are of the Python files of `solkit`, `roofline`, `surrogate`, `tuner` and `datasets`,
without the kernel zoo, Inductor's generated kernels and data. Code lines hold a token that is no
comment and no docstring. Bindings are names that are stored to and parameters; a pronoun is one of
`PRONOUNS`, which says nothing about what it is bound to.
"""

from __future__ import annotations

import argparse
import ast
import collections
import io
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
PRODUCT = ("solkit", "roofline", "surrogate", "tuner", "datasets")
LEFT_OUT = {("datasets", name) for name in ("data", "inductor", "libraries", "zoo")}
PRONOUNS = frozenset({"asked", "each", "found", "given", "known", "left", "made", "told", "wanted"})
_NO_CODE = {
    tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT,
    tokenize.ENCODING, tokenize.ENDMARKER,
}  # fmt: skip


@dataclass
class Size:
    """Counts of some files."""

    files: int = 0
    lines: int = 0
    code: int = 0
    bindings: int = 0
    pronouns: int = 0
    functions: int = 0
    letters: int = 0

    def __add__(self, other: Size) -> Size:
        return Size(
            *(a + b for a, b in zip(vars(self).values(), vars(other).values(), strict=True))
        )

    def words(self) -> str:
        """Describe them in a line."""
        return (
            f"{self.files:4} files {self.lines:7,} lines {self.code:7,} of code; bindings "
            f"{self.bindings:6,}, pronouns {self.pronouns / max(self.bindings, 1):6.2%}; "
            f"functions {self.functions:5,}, {self.letters / max(self.functions, 1):5.2f} letters"
        )


def product_files() -> Iterator[tuple[str, Path]]:
    """Yield each file of the product, with the room that it is in."""
    for top in PRODUCT:
        for path in sorted((ROOT / top).rglob("*.py")):
            parts = path.relative_to(ROOT).parts
            if parts[:2] not in LEFT_OUT and not any(p.is_symlink() for p in path.parents):
                is_room = top == "solkit" and len(parts) > 2
                yield "/".join(parts[:2]) if is_room else top, path


def size_of(source: str) -> Size:
    """Count the lines and names of a file's text."""
    tree = ast.parse(source)
    docstrings = {
        line
        for node in ast.walk(tree)
        if isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
        for line in range(node.lineno, (node.end_lineno or node.lineno) + 1)
    }
    code: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type not in _NO_CODE:
            code.update(range(token.start[0], token.end[0] + 1))
    names = list(_bindings(tree))
    functions = [
        node.name
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]
    return Size(
        1,
        source.count("\n"),
        len(code - docstrings),
        len(names),
        sum(name in PRONOUNS for name in names),
        len(functions),
        sum(map(len, functions)),
    )


def _bindings(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        elif isinstance(node, ast.arg):
            yield node.arg


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rooms", action="store_true", help="a line for each room")
    by_room: dict[str, Size] = collections.defaultdict(Size)
    for room, path in product_files():
        by_room[room] += size_of(path.read_text("utf-8"))
    if parser.parse_args().rooms:
        for room, size in by_room.items():
            print(f"{room:20}{size.words()}")
    print(f"{'product':20}{sum(by_room.values(), Size()).words()}")
    tests = (path.read_text("utf-8") for path in sorted((ROOT / "tests").rglob("*.py")))
    print(f"{'tests':20}{sum(map(size_of, tests), Size()).words()}")
