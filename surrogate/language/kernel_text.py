"""Text of a kernel file as the model reads it, and other texts that mean the same.

A file's notes, reference, inputs and search space say nothing of how fast the kernel runs, so they
are left out, and the rest is written as `ast.unparse` writes it. CUDA C++ follows as it is, without
its comments.

`Writer` makes variants for training: names are replaced, lines that do not depend on each other
change places, numbers become names. They need not run.
"""

from __future__ import annotations

import ast
import builtins
import functools
import keyword
import random
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from solkit.core.parsing import syntax_tree

_LEFT_OUT = frozenset(
    (
        *("reference", "inputs", "valid", "get_inputs", "get_init_inputs", "Model", "LAUNCH"),
        *("KIND", "SPACE", "SHAPES", "TOLERANCE", "RTOL", "ATOL", "PRECISION", "CASES"),
    )
)
"""Top-level names of a kernel file that do not run on the GPU for the candidate."""

_LONG = 200  # characters of a string that is taken for a program in another language
_NAME = re.compile(r"[A-Za-z_]\w*")
_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_BLANK = re.compile(r"\n\s*\n+")
_NUMBER = re.compile(r"(?<![\w.])\d+(?:\.\d+)?(?:e[-+]?\d+)?(?![\w.])")

_KEPT = frozenset(
    (
        *("num_warps", "num_stages", "num_ctas", "maxnreg", "torch", "triton", "tl", "self"),
        *("mask", "other", "axis", "dtype", "device", "grid", "eviction_policy", "cache_modifier"),
        *keyword.kwlist,
        *dir(builtins),
    )
)
"""Names that mean something to Python or Triton: they are never replaced."""


@functools.lru_cache(4096)
def kernel_text(source: str) -> str:
    """Return the part of a kernel file that says how it runs.

    Args:
        source: the file. What is no Python is returned as it is.
    """
    try:
        tree = syntax_tree(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return source
    programs: list[str] = []
    body = [
        statement
        for statement in tree.body
        if not _LEFT_OUT.intersection(_defined_names(statement))
    ]
    reader = _Reader(programs)
    kept = [
        reader.visit(statement)
        for statement in body
        if not isinstance(statement, ast.Import | ast.ImportFrom)
    ]
    python = "\n".join(ast.unparse(statement) for statement in kept if statement is not None)
    others = (_BLANK.sub("\n", _COMMENT.sub("", program)).strip() for program in programs)
    return "\n".join((python, *others)).strip()


class _Reader(ast.NodeTransformer):
    """Drops notes, and sets programs in other languages aside."""

    def __init__(self, programs: list[str]) -> None:
        self._programs = programs

    def visit_Expr(self, node: ast.Expr) -> ast.AST | None:
        if isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            return None
        return self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> ast.AST:
        if isinstance(node.value, str) and len(node.value) > _LONG:
            self._programs.append(node.value)
            return ast.copy_location(ast.Constant("..."), node)
        return node


def _defined_names(node: ast.stmt) -> Iterable[str]:
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        return (node.name,)
    targets = node.targets if isinstance(node, ast.Assign) else ()
    return (target.id for target in targets if isinstance(target, ast.Name))


def find_name_spans(text: str, names: Iterable[str]) -> dict[str, list[tuple[int, int]]]:
    """Find names in a text: the first character and the one behind the last of each."""
    distinct = set(names)
    spans: dict[str, list[tuple[int, int]]] = {name: [] for name in distinct}
    for match in _NAME.finditer(text):
        if match[0] in distinct:
            spans[match[0]].append(match.span())
    return spans


@dataclass(frozen=True)
class Writer:
    """Makes variants of texts.

    Attributes:
        renamed: share of a text's own names that are replaced.
        moved: chance that two neighbouring lines that do not depend on each other change places.
        lifted: share of the numbers that become names.
    """

    renamed: float = 0.5
    moved: float = 0.2
    lifted: float = 0.05

    def variant(self, text: str, chance: random.Random) -> tuple[str, Mapping[str, str]]:
        """Return a text that means the same, and what each replaced name is called in it.

        Args:
            text: from `kernel_text`.
            chance: decides.
        """
        own = _own_names(text)
        text = _swap_neighbouring_lines(text, self.moved, chance)
        share = chance.random() * 2 * self.renamed  # some variants keep most, some hardly any
        chosen = [name for name in own if chance.random() < share]
        pool = chance.sample(own, len(own)) + [_make_up_name(chance) for _ in range(len(chosen))]
        taken = set(_NAME.findall(text)).difference(chosen)
        names: dict[str, str] = {}
        for old in chosen:
            new = next((name for name in pool if name not in taken), old)
            taken.add(new)
            names[old] = new
        text = _NAME.sub(lambda match: names.get(match[0], match[0]), text)
        if self.lifted:
            text = _NUMBER.sub(
                lambda m: _make_up_name(chance).upper() if chance.random() < self.lifted else m[0],
                text,
            )
        return text, names


@functools.lru_cache(4096)
def _own_names(text: str) -> list[str]:
    """Return names that a text defines itself: arguments, variables, functions."""
    try:
        tree = syntax_tree(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return sorted(set(re.findall(r"\b[A-Z][A-Z0-9_]{2,}\b", text)) - _KEPT)
    names = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.arg):
            names.add(node.arg)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
        elif isinstance(node, ast.FunctionDef):
            names.add(node.name)
    return sorted(names - _KEPT)


_SYLLABLES = ("ba", "co", "de", "fi", "gu", "ha", "jo", "ke", "li", "mu", "na", "po", "ra", "se")


def _make_up_name(chance: random.Random) -> str:
    name = "".join(chance.choice(_SYLLABLES) for _ in range(chance.randint(1, 3)))
    return (
        name.upper()
        if chance.random() < 0.3
        else name + chance.choice(("", "_", str(chance.randint(0, 9))))
    )


def _swap_neighbouring_lines(text: str, share: float, chance: random.Random) -> str:
    lines = text.split("\n")
    for at in range(len(lines) - 1):
        if chance.random() < share and _lines_are_independent(lines[at], lines[at + 1]):
            lines[at], lines[at + 1] = lines[at + 1], lines[at]
    return "\n".join(lines)


_ASSIGNED = re.compile(r"^(\s+)([A-Za-z_]\w*) = (.*)$")


def _lines_are_independent(first: str, second: str) -> bool:
    """Tell whether two lines assign to different names and read none of these; no stores."""
    one, two = _ASSIGNED.match(first), _ASSIGNED.match(second)
    if one is None or two is None or one[1] != two[1] or one[2] == two[2]:
        return False
    if any("store(" in text or "atomic" in text for text in (first, second)):
        return False
    return one[2] not in _NAME.findall(two[3]) and two[2] not in _NAME.findall(one[3])
