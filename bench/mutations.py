"""Small changes of what a kernel computes: a rewrite must keep the meaning of the changed one too.

A rewrite that matches a pattern without proving what it relies on keeps the meaning of the kernels
that it was written for, and breaks that of kernels a step away: a sum that starts at one, a mask
with another condition, a loop that starts later. The mutant is its own reference.
"""

from __future__ import annotations

import ast
import copy
import random
from collections.abc import Callable, Iterator

REFERENCE = '''
def reference(*args, **kwargs):
    """Return what the mutant computes."""
    return kernel(*args, **kwargs)
'''
_SWAPS: dict[type[ast.AST], tuple[type[ast.AST], ...]] = {
    ast.Add: (ast.Sub, ast.Mult),
    ast.Sub: (ast.Add, ast.Mult),
    ast.Mult: (ast.Add, ast.Sub),
    ast.Lt: (ast.LtE, ast.Gt),
    ast.Gt: (ast.GtE, ast.Lt),
    ast.LtE: (ast.Lt,),
    ast.GtE: (ast.Gt,),
}
_CALLS = {
    **{"sum": "max", "max": "sum", "maximum": "minimum", "minimum": "maximum"},
    **{"exp": "sigmoid", "sigmoid": "exp", "log": "abs", "sqrt": "abs", "rsqrt": "abs"},
}
_NUMBERS = (0.0, 1.0, 2.0, -1.0, 0.5)


def mutants(source: str, seed: int) -> Iterator[str]:
    """Yield files whose device functions were changed once or twice, without end."""
    draw = random.Random(f"{seed} {source}")
    while True:
        tree = ast.parse(source)
        functions = [node for node in tree.body if _is_device_function(node)]
        changes = [change for node in functions for change in _changes(node, draw)]
        if not changes:
            return
        for change in draw.sample(changes, min(len(changes), draw.choice((1, 1, 2)))):
            change()
        tree.body = [node for node in tree.body if getattr(node, "name", "") != "reference"]
        yield ast.unparse(ast.fix_missing_locations(tree)) + "\n\n" + REFERENCE


def _is_device_function(node: ast.stmt) -> bool:
    return isinstance(node, ast.FunctionDef) and any(
        "jit" in ast.unparse(decorator) for decorator in node.decorator_list
    )


def _changes(function: ast.stmt, draw: random.Random) -> Iterator[Callable[[], None]]:
    for node in ast.walk(ast.Module(function.body, [])):
        yield from _changes_of_node(node, draw)
        for field in ("body", "orelse"):
            statements = getattr(node, field, None)
            if isinstance(statements, list) and len(statements) > 1 and node is not function:
                yield from _changes_of_block(statements, draw)
    yield from _changes_of_block(function.body, draw)


def _changes_of_node(node: ast.AST, draw: random.Random) -> Iterator[Callable[[], None]]:
    if isinstance(node, ast.BinOp) and type(node.op) in _SWAPS:
        yield lambda: setattr(node, "op", draw.choice(_SWAPS[type(node.op)])())
    if isinstance(node, ast.Compare) and type(node.ops[0]) in _SWAPS:
        yield lambda: setattr(node, "ops", [draw.choice(_SWAPS[type(node.ops[0])])()])
    if isinstance(node, ast.Constant) and isinstance(node.value, float):
        yield lambda: setattr(node, "value", draw.choice(_NUMBERS))
    if isinstance(node, ast.Attribute) and node.attr in _CALLS:
        yield lambda: setattr(node, "attr", _CALLS[node.attr])
    for keyword in getattr(node, "keywords", ()):
        if keyword.arg == "mask":
            yield lambda k=keyword: setattr(k, "value", _narrowed(k.value))
        if keyword.arg == "other":
            yield lambda k=keyword: setattr(k, "value", ast.Constant(draw.choice(_NUMBERS)))
    if isinstance(node, ast.For) and isinstance(node.iter, ast.Call) and len(node.iter.args) > 1:
        yield lambda: node.iter.args.__setitem__(0, ast.Constant(1))  # type: ignore[attr-defined]


def _narrowed(mask: ast.expr) -> ast.expr:
    """Return a mask with one condition more on what its first comparison compares."""
    compared = next((n for n in ast.walk(mask) if isinstance(n, ast.Compare)), None)
    if compared is None:
        return mask
    text = f"({ast.unparse(mask)}) & (({ast.unparse(compared.left)}) % 3 != 1)"
    return ast.parse(text, mode="eval").body


def _changes_of_block(
    statements: list[ast.stmt], draw: random.Random
) -> Iterator[Callable[[], None]]:
    for index, statement in enumerate(statements[:-1]):
        if isinstance(statement, ast.AugAssign | ast.Assign):
            yield lambda i=index: statements.__setitem__(
                slice(i, i + 2), statements[i : i + 2][::-1]
            )
            yield lambda i=index: statements.insert(
                draw.randrange(i, len(statements)), copy.deepcopy(statements[i])
            )
