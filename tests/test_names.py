"""Names say what they are bound to: pronouns are bound only where a list says why."""

from __future__ import annotations

import ast
import functools
import re
import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
LINES = runpy.run_path(str(ROOT / "bench" / "lines.py"))
PRONOUNS = LINES["PRONOUNS"] | {"its", "these", "those", "whose"}
PROSE = re.compile(r'""".*?"""|"[^"\n]*"|(?:^|  )\s*#[^\n]*', re.DOTALL | re.MULTILINE)
WORD = re.compile(rf"\b(?:{'|'.join(PRONOUNS)})\b")

ALLOWED = {
    # a field, and a method, of the public interface
    ("datasets/store.py", "known"),
    ("tuner/database.py", "known"),
    # overrides that method
    ("tests/pipeline/test_batch_faults.py", "known"),
    # the left one of a pair, whose other one is `right`: operands, arrays, paths
    ("solkit/core/arithmetic.py", "left"),
    ("solkit/kernelfiles/_source.py", "left"),
    ("surrogate/online_gp.py", "left"),
    ("tuner/proposers/rewriter/_lift_expressions.py", "left"),
    ("tuner/proposers/rewriter/_values.py", "left"),
    ("tuner/proposers/rewriter/mask_removal.py", "left"),
    # the left edge of a plot
    ("solkit/service/curves.py", "left"),
}
"""Files with pronouns that they may bind. It may only shrink: name a thing by the field's word."""


def names_bound_by(node: ast.AST) -> tuple[str | None, ...]:
    """Return the names that a node of a tree binds itself; attributes and keywords are none."""
    match node:
        case ast.Name(id=name, ctx=ast.Store()) | ast.arg(arg=name):
            return (name,)
        case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef() | ast.ExceptHandler():
            return (node.name,)
        case ast.alias():
            return (node.asname or node.name,)
        case ast.MatchAs(name=name) | ast.MatchStar(name=name) | ast.MatchMapping(rest=name):
            return (name,)
    return ()


def pronouns_bound(text: str) -> list[tuple[int, str]]:
    """Return the pronouns that a file's text binds, with their lines."""
    if not WORD.search(PROSE.sub("", text)):
        return []  # most files: to parse all of them takes seconds
    return [
        (getattr(node, "lineno", 0), name)
        for node in ast.walk(ast.parse(text))
        for name in names_bound_by(node)
        if name in PRONOUNS
    ]


@functools.cache
def pronouns_of_files() -> list[tuple[str, int, str]]:
    """Return the pronouns bound in the product and its tests: file, line, name."""
    tests = sorted((ROOT / "tests").rglob("*.py"))
    paths = [*(path for _, path in LINES["product_files"]()), *tests]
    assert len(paths) > 1000
    return [
        (path.relative_to(ROOT).as_posix(), *place)
        for path in paths
        for place in pronouns_bound(path.read_text(encoding="utf-8"))
        if not path.is_relative_to(ROOT / "tests")
        or place[1] != "left"  # of a pair, in kernels and expected values
    ]


def test_pronouns_are_bound_only_where_the_list_says_why():
    new = [
        f"{file}:{line}: {name}"
        for file, line, name in pronouns_of_files()
        if (file, name) not in ALLOWED
    ]
    assert new == [], "name what it is"


def test_the_list_has_no_entry_that_no_longer_occurs():
    bound = {(file, name) for file, _, name in pronouns_of_files()}
    assert bound >= ALLOWED, f"take these off the list: {ALLOWED - bound}"


@pytest.mark.parametrize(
    "text",
    [
        "found = 1",
        "found: int = 1",
        "found += 1",
        "class Row:\n    found: int",
        "one, (two, *found) = rows",
        "for found in rows: pass",
        "rows = [found for found in rows]",
        "print(found := 1)",
        "with file as found: pass",
        "def rows(found): pass",
        "def rows(*, found=1): pass",
        "def rows(*found): pass",
        "rows = lambda found: 1",
        "def found(): pass",
        "class Row:\n    async def found(self): pass",
        "class found: pass",
        "import rows as found",
        "from rows import found",
        "try: pass\nexcept OSError as found: pass",
        "match rows:\n    case found: pass",
        "match rows:\n    case [1, *found]: pass",
        "match rows:\n    case {1: 2, **found}: pass",
    ],
)
def test_a_binding_is_seen(text):
    assert [name for _, name in pronouns_bound(text)] == ["found"]


@pytest.mark.parametrize(
    "text",
    [
        "print(found)",
        "row.found = 1",
        "row.found()",
        "rows(found=1)",
        "rows['found'] = 1",
        "_found = found_rows = 1",
        "del found",
        "import rows.found",
        "'found'  # found",
    ],
)
def test_uses_attributes_keywords_and_longer_names_are_no_bindings(text):
    assert pronouns_bound(text) == []
