"""Small helpers over libcst: code to nodes and back, names, calls, statements."""

from __future__ import annotations

import functools
import textwrap
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import TypeVar, cast

import libcst as cst

__all__ = [
    "EXPONENTIALS",
    "Assignment",
    "Body",
    "Loop",
    "argument_of",
    "assigned",
    "assignment",
    "body_of",
    "called",
    "calls",
    "children",
    "code",
    "expression",
    "first",
    "grouped",
    "line",
    "loop_of",
    "names",
    "nodes",
    "number",
    "replace_each",
    "running",
    "statements",
    "substitute",
    "text_of",
    "uses",
    "with_body",
    "with_each",
]

Node = TypeVar("Node", bound=cst.CSTNode)
Expression = cst.BaseExpression
Body = Sequence[cst.BaseStatement]


def code(node: cst.CSTNode) -> str:
    """Return the code of a node, without the blanks and comments around it."""
    return cst.Module([]).code_for_node(node).strip()


def text_of(tree: cst.Module) -> str:
    """Return the text of a module. That of a statement is kept, since most rewrites change few."""
    if not tree.has_trailing_newline:
        return tree.code
    form = tree.default_indent, tree.default_newline
    return "".join(_text_of(part, *form) for part in (*tree.header, *tree.body, *tree.footer))


@functools.lru_cache(256)  # a kernel of Inductor's takes MBs
def _text_of(node: cst.CSTNode, indent: str, newline: str) -> str:
    """Return a node's text, by the node itself: nodes are equal to no other."""
    return cst.Module([], default_indent=indent, default_newline=newline).code_for_node(node)


def expression(text: str) -> cst.BaseExpression:
    """Return an expression from its code."""
    return cst.parse_expression(text)


def statements(text: str) -> list[cst.BaseStatement]:
    """Parse statements from their code, which may be indented as a whole."""
    return list(cast(Sequence[cst.BaseStatement], cst.parse_module(textwrap.dedent(text)).body))


def line(text: str) -> cst.BaseStatement:
    """Parse one statement from its code."""
    return statements(text)[0]


EXPONENTIALS = ("tl.exp", "tl.exp2", "tl.math.exp", "tl.math.exp2")
"""Functions that take one number to a positive one."""

_ATOMS = (cst.Name, cst.Integer, cst.Float, cst.Call, cst.Attribute, cst.Subscript, cst.Tuple)


def grouped(node: cst.BaseExpression) -> cst.BaseExpression:
    """Return the expression in parentheses, unless it is an operand as it is."""
    if isinstance(node, _ATOMS) or node.lpar:
        return node
    return node.with_changes(lpar=[cst.LeftParen()], rpar=[cst.RightParen()])


# ------------------------------------------------------------------------------- names and values


_BLANKS = ("whitespace", "leading_lines", "lines_after", "trailing", "header", "footer", "indent")
_MARKS = frozenset(
    (
        *("lpar", "rpar", "lbracket", "rbracket", "lbrace", "rbrace", "comma", "semicolon"),
        *("equal", "dot", "colon", "first_colon", "second_colon", "star", "posonly_ind"),
        *("asynchronous", "encoding", "default_indent", "default_newline", "has_trailing_newline"),
    )
)
_FIRST = {"FunctionDef": "decorators", "Arg": "keyword", "IfExp": "body"}
"""Fields that stand ahead of those before them in the node's definition."""


@functools.cache
def _parts(kind: type[cst.CSTNode]) -> tuple[str, ...]:
    """Return the fields of a kind of node that hold code, as they stand in the text."""
    part_names = [field.name for field in fields(kind)]
    part_names = [
        name for name in part_names if name not in _MARKS and not name.startswith(_BLANKS)
    ]
    return tuple(sorted(part_names, key=lambda name: name != _FIRST.get(kind.__name__)))


def children(node: cst.CSTNode) -> Iterator[cst.CSTNode]:
    """Yield the nodes right within a node, without blanks and punctuation.

    libcst's own `visit` makes each node anew, and took most of the rewriter's time.
    """
    for name in _parts(type(node)):
        value = getattr(node, name)
        if isinstance(value, cst.CSTNode):
            yield value
        elif isinstance(value, (list, tuple)):
            yield from (item for item in value if isinstance(item, cst.CSTNode))


def nodes(*within: cst.CSTNode) -> Iterator[cst.CSTNode]:
    """Yield nodes and all that is within them, outermost first."""
    pending = list(reversed(within))
    while pending:
        node = pending.pop()
        yield node
        pending.extend(reversed(list(children(node))))


def names(*within: cst.CSTNode) -> set[str]:
    """Return the names in nodes, read or assigned; not attributes nor keywords."""
    identifiers: set[str] = set()
    pending = list(within)
    while pending:
        node = pending.pop()
        if isinstance(node, cst.Name):
            identifiers.add(node.value)
        elif isinstance(node, (cst.Attribute, cst.Arg)):
            pending.append(node.value)
        else:
            pending.extend(children(node))
    return identifiers


def uses(node: cst.CSTNode, name: str) -> int:
    """Count how often a name is read or assigned; a keyword of a call is no name."""
    all_nodes = list(nodes(node))
    keywords = [e.keyword for e in all_nodes if isinstance(e, cst.Arg) and e.keyword is not None]
    at = sum(isinstance(other, cst.Name) and other.value == name for other in all_nodes)
    return at - sum(keyword.value == name for keyword in keywords)


class _Substitution(cst.CSTTransformer):
    def __init__(self, values: Mapping[str, cst.BaseExpression]) -> None:
        self._values = values

    def leave_Name(  # noqa: N802
        self, original_node: cst.Name, updated_node: cst.Name
    ) -> cst.BaseExpression:
        value = self._values.get(original_node.value)
        return updated_node if value is None else grouped(value.deep_clone())

    def leave_Attribute(  # noqa: N802
        self, original_node: cst.Attribute, updated_node: cst.Attribute
    ) -> cst.Attribute:
        return updated_node.with_changes(attr=original_node.attr)

    def leave_Arg(  # noqa: N802
        self, original_node: cst.Arg, updated_node: cst.Arg
    ) -> cst.Arg:
        return updated_node.with_changes(keyword=original_node.keyword)


def substitute(node: Node, values: Mapping[str, cst.BaseExpression]) -> Node:
    """Return the node with names replaced by expressions, in targets too if these are names."""
    return cast(Node, node.visit(_Substitution(values)))


def replace_each(node: Node, pairs: Sequence[tuple[cst.CSTNode, cst.CSTNode]]) -> Node:
    """Return the node with parts of it, each found by identity, replaced."""
    return with_each(node, {id(old): [new] for old, new in pairs})


def with_each(node: Node, swaps: Mapping[int, Sequence[cst.CSTNode]]) -> Node:
    """Return the node with parts of it replaced: one by one, or in a list by any number.

    Args:
        node: to be changed.
        swaps: what replaces a part, by the part's `id`.
    """
    if id(node) in swaps:
        (only,) = swaps[id(node)]
        return cast(Node, only)
    changes: dict[str, object] = {}
    for name in _parts(type(node)):
        value = getattr(node, name)
        if isinstance(value, cst.CSTNode):
            changed: object = with_each(value, swaps)
        elif isinstance(value, (list, tuple)):
            changed = _with_each_of(value, swaps)
        else:
            continue
        if changed is not value:
            changes[name] = changed
    return node.with_changes(**changes) if changes else node


def _with_each_of(
    values: Sequence[object], swaps: Mapping[int, Sequence[cst.CSTNode]]
) -> Sequence[object]:
    """Return the same list if nothing in it changes."""
    result: list[object] = []
    for value in values:
        if id(value) in swaps:
            result += swaps[id(value)]
        else:
            result.append(with_each(value, swaps) if isinstance(value, cst.CSTNode) else value)
    is_same = len(result) == len(values) and all(
        a is b for a, b in zip(result, values, strict=True)
    )
    return values if is_same else result


def number(node: cst.CSTNode | None) -> int | None:
    """Return the value of an integer literal."""
    return int(node.value, 0) if isinstance(node, cst.Integer) else None


# ------------------------------------------------------------------------------- calls


def called(node: cst.CSTNode) -> str:
    """Return the dotted name of what a call calls, such as ``"tl.load"``; empty for other nodes."""
    return code(node.func) if isinstance(node, cst.Call) else ""


def calls(node: cst.CSTNode, *functions: str) -> list[cst.Call]:
    """Return the calls within a node, outermost first; those of the given dotted names."""
    all_calls = [call for call in nodes(node) if isinstance(call, cst.Call)]
    return [call for call in all_calls if not functions or called(call) in functions]


def argument_of(call: cst.Call, position: int, keyword: str = "") -> cst.BaseExpression | None:
    """Return a call's argument by position or keyword."""
    for index, arg in enumerate(call.args):
        if arg.keyword is None and index == position and not arg.star:
            return arg.value
        if arg.keyword is not None and keyword and arg.keyword.value == keyword:
            return arg.value
    return None


# ------------------------------------------------------------------------------- statements


@dataclass(frozen=True)
class Assignment:
    """``target = value``; of ``target += value``, `value` is the sum.

    Attributes:
        target: the name.
        value: what it gets.
        operator: of an augmented assignment, such as ``"+="``; else empty.
        operand: the right-hand side as written.
    """

    target: str
    value: cst.BaseExpression
    operator: str
    operand: cst.BaseExpression


def _small(statement: cst.CSTNode) -> cst.BaseSmallStatement | None:
    if isinstance(statement, cst.SimpleStatementLine) and len(statement.body) == 1:
        return statement.body[0]
    return None


def assignment(statement: cst.CSTNode) -> Assignment | None:
    """Return the statement as an assignment to one name; ``None`` if it is none."""
    small = _small(statement)
    if isinstance(small, cst.Assign) and len(small.targets) == 1:
        target = small.targets[0].target
        if isinstance(target, cst.Name):
            return Assignment(target.value, small.value, "", small.value)
    if isinstance(small, cst.AnnAssign) and isinstance(small.target, cst.Name) and small.value:
        return Assignment(small.target.value, small.value, "", small.value)
    if isinstance(small, cst.AugAssign) and isinstance(small.target, cst.Name):
        operator = code(small.operator)
        whole = f"{small.target.value} {operator[:-1]} {code(grouped(small.value))}"
        return Assignment(small.target.value, expression(whole), operator, small.value)
    return None


def assigned(*within: cst.CSTNode) -> list[str]:
    """Return the names that statements assign, once for each time."""
    kinds = (cst.AssignTarget, cst.AugAssign, cst.AnnAssign, cst.For)
    targets = (node.target for node in nodes(*within) if isinstance(node, kinds))
    return [name for target in targets for name in names(target)]


def first(statement: cst.CSTNode) -> cst.BaseExpression | None:
    """Return the expression that is the whole statement, such as a call."""
    small = _small(statement)
    return small.value if isinstance(small, cst.Expr) else None


def body_of(node: cst.CSTNode) -> list[cst.BaseStatement]:
    """Return the statements of a function or of a compound statement, without a docstring's."""
    block = getattr(node, "body", None)
    if not isinstance(block, cst.IndentedBlock):
        return []
    return list(block.body)


def with_body(node: Node, body: Sequence[cst.BaseStatement]) -> Node:
    """Return a function or a compound statement with another body."""
    block = cst.ensure_type(node.body, cst.IndentedBlock)  # type: ignore[attr-defined]
    return node.with_changes(body=block.with_changes(body=list(body)))


@dataclass(frozen=True)
class Loop:
    """``for name in range(start, stop, step)``, or ``tl.range``.

    Attributes:
        node: the statement.
        name: of its variable.
        start, stop, step: of its range.
        body: its statements.
    """

    node: cst.For
    name: str
    start: cst.BaseExpression
    stop: cst.BaseExpression
    step: cst.BaseExpression
    body: tuple[cst.BaseStatement, ...]


def loop_of(statement: cst.CSTNode) -> Loop | None:
    """Return the statement as a loop over a range; ``None`` if it is none, or has an ``else``."""
    if not isinstance(statement, cst.For) or statement.orelse is not None:
        return None
    over = statement.iter
    if not isinstance(over, cst.Call) or called(over) not in ("range", "tl.range"):
        return None
    if not isinstance(statement.target, cst.Name):
        return None
    bounds = [arg.value for arg in over.args if arg.keyword is None]
    if not 1 <= len(bounds) <= 3:
        return None
    start = expression("0") if len(bounds) == 1 else bounds[0]
    stop = bounds[0] if len(bounds) == 1 else bounds[1]
    step = bounds[2] if len(bounds) == 3 else expression("1")
    body = tuple(body_of(statement))
    return Loop(statement, statement.target.value, start, stop, step, body)


def running(loop: Loop) -> dict[int, Assignment]:
    """Return what grows by the same each trip, by its place in the loop's body."""
    counts = Counter(assigned(*loop.body))
    varying = {loop.name, *counts}
    bindings = enumerate(map(assignment, loop.body))
    return {
        place: binding
        for place, binding in bindings
        if binding is not None
        and binding.operator in ("+=", "-=")
        and counts[binding.target] == 1
        and not names(binding.operand) & varying
    }


def walk(body: Sequence[cst.BaseStatement]) -> Iterator[cst.BaseStatement]:
    """Yield all statements of a body, those within others too."""
    for statement in body:
        yield statement
        yield from walk(body_of(statement))
