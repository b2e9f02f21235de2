"""A syntax tree's nodes and statements: reading, copying, replacing and writing them.

Rewrites read trees through this module and `solkit.tuner.proposers.rewriter._parse`, and write them
through `solkit.tuner.proposers.rewriter._edit`: none searches a tree on its own.
"""

from __future__ import annotations

import ast
import functools
import itertools
import operator
import re
import textwrap
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, TypeGuard, TypeVar, cast

import libcst as cst

Node = TypeVar("Node", bound=cst.CSTNode)
Expression = cst.BaseExpression
Body = Sequence[cst.BaseStatement]
Values = Mapping[str, cst.BaseExpression]
Swap = tuple[cst.CSTNode, cst.CSTNode]
"""A part of a tree, and what replaces it."""
MOST_STEPS = 20  # of names that stand for names
_NEEDLESS_BLANKS = re.compile(r" *([^\w ]) *")


@functools.lru_cache(4096)  # each is asked for some ten times, by several rewrites
def render_code(node: cst.CSTNode) -> str:
    """Return the code of a node, without the blanks and comments around it."""
    return cst.Module([]).code_for_node(node).strip()


def compact_code(node: cst.CSTNode) -> str:
    """Return the code of a node without blanks."""
    return "".join(render_code(node).split())


@functools.lru_cache(4096)
def plain_code(node: cst.BaseExpression) -> str:
    """Return an expression's code without blanks, and with no parentheses but those it needs.

    What is the same in it is the same expression: `a * (b + c)` and `a * b + c` are two.
    """
    code = ast.unparse(ast.parse(f"({render_code(node)}\n)", mode="eval"))
    return _NEEDLESS_BLANKS.sub(r"\1", code)


def render_module(tree: cst.Module) -> str:
    """Return the text of a module. That of a statement is kept, since most rewrites change few."""
    if not tree.has_trailing_newline:
        return tree.code
    form = tree.default_indent, tree.default_newline
    return "".join(_render_node(part, *form) for part in (*tree.header, *tree.body, *tree.footer))


@functools.lru_cache(256)  # a kernel of Inductor's takes MBs
def _render_node(node: cst.CSTNode, indent: str, newline: str) -> str:
    """Return a node's text, by the node itself: nodes are equal to no other."""
    return cst.Module([], default_indent=indent, default_newline=newline).code_for_node(node)


def parse_expression(text: str) -> cst.BaseExpression:
    """Return an expression from its code."""
    return cst.parse_expression(text)


def parse_statements(text: str) -> list[cst.BaseStatement]:
    """Parse statements from their code, which may be indented as a whole."""
    return list(cast("Body", cst.parse_module(textwrap.dedent(text)).body))


def parse_statement(text: str) -> cst.BaseStatement:
    """Parse one statement from its code."""
    return parse_statements(text)[0]


RANGES = ("range", "tl.range", "tl.static_range")
HINTS = ("tl.multiple_of", "tl.max_contiguous", "tl.max_constancy")
"""Functions that give what they get, and tell the compiler about it."""
EXPONENTIALS = ("tl.exp", "tl.exp2", "tl.math.exp", "tl.math.exp2")
"""Functions that take one number to a positive one."""

_ATOMS = (cst.Name, cst.Integer, cst.Float, cst.Call, cst.Attribute, cst.Subscript)


def parenthesized(node: cst.BaseExpression) -> cst.BaseExpression:
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
def _code_fields(kind: type[cst.CSTNode]) -> tuple[str, ...]:
    """Return the fields of a kind of node that hold code, as they stand in the text."""
    part_names = [field.name for field in fields(kind)]
    part_names = [
        name for name in part_names if name not in _MARKS and not name.startswith(_BLANKS)
    ]
    return tuple(sorted(part_names, key=lambda name: name != _FIRST.get(kind.__name__)))


def product_factors(node: cst.BaseExpression) -> list[str]:
    """Return the codes of a product's factors, in brackets where need be; itself if it is none."""
    if isinstance(node, cst.BinaryOperation) and isinstance(node.operator, cst.Multiply):
        return [*product_factors(node.left), *product_factors(node.right)]
    return [render_code(parenthesized(node))]


_IS_NODE: dict[type, bool] = {}


def _is_node(value: object) -> TypeGuard[cst.CSTNode]:
    """Tell whether a value is a node: asking libcst's abstract classes takes far longer."""
    kind = type(value)
    if kind not in _IS_NODE:
        _IS_NODE[kind] = issubclass(kind, cst.CSTNode)
    return _IS_NODE[kind]


def child_nodes(node: cst.CSTNode) -> list[cst.CSTNode]:
    """Return the nodes right within a node, without blanks and punctuation.

    libcst's own `visit` makes each node anew, and took most of the rewriter's time.
    """
    children: list[cst.CSTNode] = []
    for value in _code_getter(type(node))(node):
        kind = type(value)
        if kind is list or kind is tuple:
            children += [item for item in value if _is_node(item)]
        elif kind is not str and _is_node(value):
            children.append(value)
    return children


@functools.cache
def _code_getter(kind: type[cst.CSTNode]) -> Callable[[cst.CSTNode], Sequence[Any]]:
    """Return a function that gets all the fields of `_code_fields` at once."""
    names = _code_fields(kind)
    if len(names) == 1:
        return lambda node: (getattr(node, names[0]),)
    return operator.attrgetter(*names) if names else lambda _: ()


def nodes_within(*within: cst.CSTNode) -> Iterator[cst.CSTNode]:
    """Yield nodes and all that is within them, outermost first."""
    for node in within:
        is_large = isinstance(node, (cst.Module, cst.FunctionDef))
        yield from _listed_within(node) if is_large else _walk(node)


@functools.lru_cache(128)  # rewrites walk the same functions some hundred times
def _listed_within(node: cst.CSTNode) -> tuple[cst.CSTNode, ...]:
    return tuple(_walk(node))


def _walk(within: cst.CSTNode) -> Iterator[cst.CSTNode]:
    pending = [within]
    while pending:
        node = pending.pop()
        yield node
        pending.extend(reversed(child_nodes(node)))


def names_within(*within: cst.CSTNode) -> set[str]:
    """Return the names in nodes, read or assigned; not attributes nor keywords."""
    return set(_each_name(*within))


def _each_name(*within: cst.CSTNode) -> Iterator[str]:
    pending = list(within)
    while pending:
        node = pending.pop()
        if type(node) is cst.Name:
            yield node.value
        elif type(node) is cst.Attribute or type(node) is cst.Arg:
            pending.append(node.value)
        else:
            pending.extend(child_nodes(node))


def free_name(name: str, taken: set[str]) -> str:
    """Return the name, numbered if it is taken, and count it as taken from now on."""
    if name in taken:
        return numbered_name(name, taken)
    taken.add(name)
    return name


def numbered_name(name: str, taken: set[str]) -> str:
    """Return the name with the first number from 2 on that is free; it is taken from now on."""
    numbered = (f"{name}_{count}" for count in itertools.count(2))
    free = next(other for other in numbered if other not in taken)
    taken.add(free)
    return free


def expand_names(
    node: cst.BaseExpression, value_of: Callable[[str], cst.BaseExpression | None]
) -> cst.BaseExpression:
    """Return an expression without the names that stand for others, as far as a function knows."""
    for _ in range(MOST_STEPS):
        values = {n: v for n in names_within(node) if (v := value_of(n)) is not None}
        if not values:
            break
        node = substitute_names(node, values)
    return node


def count_uses(node: cst.CSTNode, name: str) -> int:
    """Count how often a name is read or assigned; no attribute nor keyword is a name."""
    return _count_names(node)[name]


@functools.lru_cache(1024)  # rewrites ask for each name of a statement
def _count_names(node: cst.CSTNode) -> Counter[str]:
    return Counter(_each_name(node))


@functools.cache
def _all_fields(kind: type[cst.CSTNode]) -> tuple[tuple[str, bool], ...]:
    """Return the fields of a kind of node, and whether they hold code."""
    code = _code_fields(kind)
    return tuple((field.name, field.name in code) for field in fields(kind))


_NAMED = {cst.Attribute: "attr", cst.Arg: "keyword"}
"""Fields with a name that stands for no value."""
_NO_VALUES: Values = {}


def _copy(node: cst.CSTNode, values: Values) -> cst.CSTNode:
    """Return a copy with names replaced; blanks and punctuation are shared.

    libcst's own `visit` validates each node again, and takes some ten times as long.
    """
    kind = type(node)
    if kind is cst.Name and (other := values.get(cast("cst.Name", node).value)) is not None:
        return parenthesized(cast("cst.BaseExpression", _copy(other, _NO_VALUES)))
    copy = object.__new__(kind)
    for name, holds_code in _all_fields(kind):
        value: object = getattr(node, name)
        if holds_code:
            within = _NO_VALUES if name == _NAMED.get(kind) else values
            if _is_node(value):
                value = _copy(value, within)
            elif isinstance(value, (list, tuple)):
                value = [_copy(item, within) if _is_node(item) else item for item in value]
        object.__setattr__(copy, name, value)  # nodes are frozen
    return copy


def substitute_names(node: Node, values: Values) -> Node:
    """Return a copy of the node with names replaced by expressions, in targets too."""
    return cast("Node", _copy(node, values))


def replace_each(node: Node, pairs: Sequence[Swap]) -> Node:
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
        return cast("Node", only)
    changes: dict[str, object] = {}
    for name in _code_fields(type(node)):
        value = getattr(node, name)
        if _is_node(value):
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
            result.append(with_each(value, swaps) if _is_node(value) else value)
    is_same = len(result) == len(values) and all(
        a is b for a, b in zip(result, values, strict=True)
    )
    return values if is_same else result


def integer_literal(node: cst.CSTNode | None) -> int | None:
    """Return the value of an integer literal."""
    return int(node.value, 0) if isinstance(node, cst.Integer) else None


# ------------------------------------------------------------------------------- calls


def called_name(node: cst.CSTNode) -> str:
    """Return the dotted name of what a call calls, such as ``"tl.load"``; empty for other nodes."""
    if not isinstance(node, cst.Call):
        return ""
    func, attributes = node.func, ""
    while isinstance(func, cst.Attribute) and not func.lpar:
        attributes = f".{func.attr.value}{attributes}"
        func = func.value
    return f"{func.value}{attributes}" if isinstance(func, cst.Name) else render_code(node.func)


def calls_within(node: cst.CSTNode, *functions: str) -> list[cst.Call]:
    """Return the calls within a node, outermost first; those of the given dotted names."""
    all_calls = [call for call in nodes_within(node) if type(call) is cst.Call]
    return [call for call in all_calls if not functions or called_name(call) in functions]


def argument_of(node: cst.CSTNode, position: int, keyword: str = "") -> cst.BaseExpression | None:
    """Return a call's argument by position or keyword; ``None`` for other nodes."""
    for index, arg in enumerate(node.args if isinstance(node, cst.Call) else ()):
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


def small_statement(statement: cst.CSTNode) -> cst.BaseSmallStatement | None:
    """Return what a line does, if that is one thing; ``None`` for other statements."""
    if isinstance(statement, cst.SimpleStatementLine) and len(statement.body) == 1:
        return statement.body[0]
    return None


@functools.lru_cache(4096)  # as for `render_code`; the sum is parsed
def single_assignment(statement: cst.CSTNode) -> Assignment | None:
    """Return the statement as an assignment to one name; ``None`` if it is none."""
    if (parts := plain_assignment(statement)) is not None and isinstance(parts[0], cst.Name):
        return Assignment(parts[0].value, parts[1], "", parts[1])
    small = small_statement(statement)
    if isinstance(small, cst.AnnAssign) and isinstance(small.target, cst.Name) and small.value:
        return Assignment(small.target.value, small.value, "", small.value)
    if isinstance(small, cst.AugAssign) and isinstance(small.target, cst.Name):
        operator = render_code(small.operator)
        whole = f"{small.target.value} {operator[:-1]} {render_code(parenthesized(small.value))}"
        return Assignment(small.target.value, parse_expression(whole), operator, small.value)
    return None


def plain_assignment(
    statement: cst.CSTNode,
) -> tuple[cst.BaseAssignTargetExpression, cst.BaseExpression] | None:
    """Return both sides of ``target = value``, whatever the target is; ``None`` for others."""
    small = small_statement(statement)
    if not isinstance(small, cst.Assign) or len(small.targets) != 1:
        return None
    return small.targets[0].target, small.value


def assigned_names(*within: cst.CSTNode) -> list[str]:
    """Return the names that statements assign, once for each time."""
    return [name for node in within for name in _assigned_within(node)]


def assigned_targets(within: cst.CSTNode) -> list[cst.BaseExpression]:
    """Return the targets of assignments within a node, those of ``+=`` and annotated ones too."""
    kinds = (cst.AssignTarget, cst.AugAssign, cst.AnnAssign)
    return [node.target for node in nodes_within(within) if isinstance(node, kinds)]


@functools.lru_cache(1024)  # rewrites ask the same statements some hundred times
def _assigned_within(within: cst.CSTNode) -> tuple[str, ...]:
    kinds = (cst.AssignTarget, cst.AugAssign, cst.AnnAssign, cst.For, cst.NamedExpr)
    targets = (node.target for node in nodes_within(within) if isinstance(node, kinds))
    return tuple(name for target in targets for name in names_within(target))


def imported_name(alias: cst.ImportAlias) -> str:
    """Return the name that an import's part binds."""
    return alias.evaluated_alias or alias.evaluated_name.partition(".")[0]


def reached_names(parts: Mapping[str, Collection[str]], name: str) -> set[str]:
    """Return a name with all that it leads to among others, each with the names in its code."""
    reached, pending = set[str](), [name]
    while pending:
        name = pending.pop()
        reached.add(name)
        pending += sorted((parts.keys() & parts.get(name, ())) - reached)
    return reached


def bound_names(*within: cst.CSTNode) -> Iterator[str]:
    """Yield names that nodes bind in any way; ``*`` if an import may bind any."""
    yield from assigned_names(*within)
    for node in nodes_within(*within):
        if isinstance(node, (cst.FunctionDef, cst.ClassDef, cst.Param)):
            yield node.name.value
        elif isinstance(node, cst.ImportAlias):
            yield imported_name(node)
        elif isinstance(node, cst.AsName):
            yield from names_within(node)
        elif isinstance(node, cst.ImportStar):
            yield "*"


def expression_statement(statement: cst.CSTNode) -> cst.BaseExpression | None:
    """Return the expression that is the whole statement, such as a call."""
    small = small_statement(statement)
    return small.value if isinstance(small, cst.Expr) else None


def is_docstring(statement: cst.BaseStatement) -> bool:
    """Tell whether a statement is a text alone."""
    return isinstance(expression_statement(statement), cst.SimpleString)


def is_return(statement: cst.BaseStatement) -> bool:
    """Tell whether a statement is a ``return``."""
    return isinstance(small_statement(statement), cst.Return)


def first_param(function: cst.FunctionDef) -> str:
    """Return the name of a function's first parameter: of a method, the object's; or ``""``."""
    params = [*function.params.posonly_params, *function.params.params]
    return params[0].name.value if params else ""


def all_params(function: cst.FunctionDef) -> list[cst.Param]:
    """Return the parameters of a function but for starred ones."""
    params = function.params
    return [*params.posonly_params, *params.params, *params.kwonly_params]


def functions_in(body: Iterable[cst.CSTNode]) -> dict[str, cst.FunctionDef]:
    """Return the functions among statements by name: of several, the last."""
    return {node.name.value: node for node in body if isinstance(node, cst.FunctionDef)}


def statements_of(node: cst.CSTNode) -> list[cst.BaseStatement]:
    """Return the statements of a function or of a compound statement, without a docstring's."""
    block = getattr(node, "body", None)
    if not isinstance(block, cst.IndentedBlock):
        return []
    return list(block.body)


def with_body(node: Node, body: Body) -> Node:
    """Return a function or a compound statement with another body."""
    block = cst.ensure_type(node.body, cst.IndentedBlock)  # type: ignore[attr-defined]
    return node.with_changes(body=block.with_changes(body=list(body)))


def compound_statement(head: str, body: Body) -> cst.BaseStatement:
    """Return a statement with a body by the code of its head, such as ``"for i in range(n)"``."""
    return with_body(parse_statement(f"{head}:\n    pass\n"), body)


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

    @property
    def over(self) -> cst.Call:
        """The call of ``range``, or of ``tl.range``."""
        return cst.ensure_type(self.node.iter, cst.Call)


def range_loop(statement: cst.CSTNode) -> Loop | None:
    """Return the statement as a loop over a range; ``None`` if it is none, or has an ``else``."""
    if not isinstance(statement, cst.For) or statement.orelse is not None:
        return None
    over = statement.iter
    if not isinstance(over, cst.Call) or called_name(over) not in ("range", "tl.range"):
        return None
    if not isinstance(statement.target, cst.Name):
        return None
    bounds = [arg.value for arg in over.args if arg.keyword is None]
    if not 1 <= len(bounds) <= 3:
        return None
    start = parse_expression("0") if len(bounds) == 1 else bounds[0]
    stop = bounds[0] if len(bounds) == 1 else bounds[1]
    step = bounds[2] if len(bounds) == 3 else parse_expression("1")
    body = tuple(statements_of(statement))
    return Loop(statement, statement.target.value, start, stop, step, body)


def running_updates(loop: Loop) -> dict[int, Assignment]:
    """Return what grows by the same each trip, by its place in the loop's body."""
    counts = Counter(assigned_names(*loop.body))
    varying = {loop.name, *counts}
    bindings = enumerate(map(single_assignment, loop.body))
    return {
        place: binding
        for place, binding in bindings
        if binding is not None
        and binding.operator in ("+=", "-=")
        and counts[binding.target] == 1
        and not names_within(binding.operand) & varying
    }


def names_read_first(body: Body) -> set[str]:
    """Return the names that statements may read before they assign them."""
    read, written = set[str](), set[str]()
    for statement in body:
        binding = single_assignment(statement)
        if binding is not None:
            read |= names_within(binding.value) - written
            written.add(binding.target)
        elif (loop := range_loop(statement)) is not None:
            read |= names_within(loop.node.iter) - written
            read |= (names_read_first(loop.body) - {loop.name}) - written  # of no trip, perhaps
        else:
            read |= names_within(statement) - written
    return read


def changed_within(
    body: Body, change: Callable[[cst.BaseStatement], Sequence[cst.BaseStatement]]
) -> list[cst.BaseStatement]:
    """Return statements that a function has changed one by one, those within others first.

    A block of which nothing is left does nothing.
    """
    result: list[cst.BaseStatement] = []
    for statement in body:
        if inner := statements_of(statement):
            changed = changed_within(inner, change) or [parse_statement("pass\n")]
            statement = with_body(statement, changed)
        result += change(statement)
    return result


def walk_statements(body: Body) -> Iterator[cst.BaseStatement]:
    """Yield all statements of a body, those within others too."""
    for statement in body:
        yield statement
        yield from walk_statements(statements_of(statement))
