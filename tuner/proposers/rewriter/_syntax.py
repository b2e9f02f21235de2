"""Small helpers over libcst: code to nodes and back, names, calls, statements."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar, cast

import libcst as cst

__all__ = [
    "Assignment",
    "Body",
    "Loop",
    "assigned",
    "assignment",
    "body_of",
    "called",
    "calls",
    "code",
    "expression",
    "first",
    "given",
    "grouped",
    "line",
    "loop_of",
    "names",
    "number",
    "replace_each",
    "statements",
    "substitute",
    "with_body",
]

Node = TypeVar("Node", bound=cst.CSTNode)
Expression = cst.BaseExpression
Body = Sequence[cst.BaseStatement]


def code(node: cst.CSTNode) -> str:
    """The code of a node, without the blanks and comments around it."""
    return cst.Module([]).code_for_node(node).strip()


def expression(text: str) -> cst.BaseExpression:
    """An expression from its code."""
    return cst.parse_expression(text)


def statements(text: str) -> list[cst.BaseStatement]:
    """Statements from their code, which may be indented as a whole."""
    return list(cast(Sequence[cst.BaseStatement], cst.parse_module(textwrap.dedent(text)).body))


def line(text: str) -> cst.BaseStatement:
    """One statement from its code."""
    return statements(text)[0]


_ATOMS = (cst.Name, cst.Integer, cst.Float, cst.Call, cst.Attribute, cst.Subscript, cst.Tuple)


def grouped(node: cst.BaseExpression) -> cst.BaseExpression:
    """The expression in parentheses, unless it is an operand as it is."""
    if isinstance(node, _ATOMS) or node.lpar:
        return node
    return node.with_changes(lpar=[cst.LeftParen()], rpar=[cst.RightParen()])


# ------------------------------------------------------------------------------- names and values


class _Names(cst.CSTVisitor):
    def __init__(self) -> None:
        self.found: set[str] = set()

    def visit_Name(self, node: cst.Name) -> None:  # noqa: N802 - libcst's name
        self.found.add(node.value)

    def visit_Attribute(self, node: cst.Attribute) -> bool:  # noqa: N802
        node.value.visit(self)
        return False

    def visit_Arg(self, node: cst.Arg) -> bool:  # noqa: N802
        node.value.visit(self)
        return False


def names(*nodes: cst.CSTNode) -> set[str]:
    """The names in nodes, read or assigned; not attributes nor keywords."""
    visitor = _Names()
    for node in nodes:
        node.visit(visitor)
    return visitor.found


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
    """The node with names replaced by expressions, in targets too if these are names."""
    return cast(Node, node.visit(_Substitution(values)))


class _Replacement(cst.CSTTransformer):
    def __init__(self, found: Mapping[int, cst.CSTNode]) -> None:
        self._found = found

    def on_leave(self, original_node: cst.CSTNodeT, updated_node: cst.CSTNodeT) -> cst.CSTNodeT:
        return cast(cst.CSTNodeT, self._found.get(id(original_node), updated_node))


def replace_each(node: Node, pairs: Sequence[tuple[cst.CSTNode, cst.CSTNode]]) -> Node:
    """The node with parts of it, each found by identity, replaced."""
    found = {id(old): new for old, new in pairs}
    return cast(Node, node.visit(_Replacement(found)))


def number(node: cst.CSTNode | None) -> int | None:
    """The value of an integer literal."""
    return int(node.value, 0) if isinstance(node, cst.Integer) else None


# ------------------------------------------------------------------------------- calls


def called(node: cst.CSTNode) -> str:
    """The dotted name of what a call calls, such as ``"tl.load"``; empty for other nodes."""
    return code(node.func) if isinstance(node, cst.Call) else ""


class _Calls(cst.CSTVisitor):
    def __init__(self) -> None:
        self.found: list[cst.Call] = []

    def visit_Call(self, node: cst.Call) -> None:  # noqa: N802
        self.found.append(node)


def calls(node: cst.CSTNode, *wanted: str) -> list[cst.Call]:
    """The calls within a node, outermost first; those of the given dotted names."""
    visitor = _Calls()
    node.visit(visitor)
    return [call for call in visitor.found if not wanted or called(call) in wanted]


def given(call: cst.Call, position: int, keyword: str = "") -> cst.BaseExpression | None:
    """A call's argument by position or keyword."""
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
    """The statement as an assignment to one name; ``None`` if it is none."""
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


class _Assigned(cst.CSTVisitor):
    def __init__(self) -> None:
        self.found: list[str] = []

    def visit_AssignTarget(self, node: cst.AssignTarget) -> None:  # noqa: N802
        self.found += names(node.target)

    def visit_AugAssign(self, node: cst.AugAssign) -> None:  # noqa: N802
        self.found += names(node.target)

    def visit_AnnAssign(self, node: cst.AnnAssign) -> None:  # noqa: N802
        self.found += names(node.target)

    def visit_For(self, node: cst.For) -> None:  # noqa: N802
        self.found += names(node.target)


def assigned(*nodes: cst.CSTNode) -> list[str]:
    """The names that statements assign, once for each time."""
    visitor = _Assigned()
    for node in nodes:
        node.visit(visitor)
    return visitor.found


def first(statement: cst.CSTNode) -> cst.BaseExpression | None:
    """The expression that is the whole statement, such as a call."""
    small = _small(statement)
    return small.value if isinstance(small, cst.Expr) else None


def body_of(node: cst.CSTNode) -> list[cst.BaseStatement]:
    """The statements of a function or of a compound statement, without a docstring's."""
    block = getattr(node, "body", None)
    if not isinstance(block, cst.IndentedBlock):
        return []
    return list(block.body)


def with_body(node: Node, body: Sequence[cst.BaseStatement]) -> Node:
    """A function or a compound statement with another body."""
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
    """The statement as a loop over a range; ``None`` if it is none, or has an ``else``."""
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


def walk(body: Sequence[cst.BaseStatement]) -> Iterator[cst.BaseStatement]:
    """All statements of a body, those within others too."""
    for statement in body:
        yield statement
        yield from walk(body_of(statement))
