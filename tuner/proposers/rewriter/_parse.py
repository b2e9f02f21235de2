"""A kernel file as a syntax tree: nodes and statements, Triton functions, launcher, launches.

Rewrites read a file through this module, and write it through
`solkit.tuner.proposers.rewriter._edit`: none searches the tree on its own.
"""

from __future__ import annotations

import ast
import functools
import itertools
import operator
import re
import textwrap
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any, TypeGuard, TypeVar, cast

import libcst as cst

__all__ = [
    "EXPONENTIALS",
    "HINTS",
    "MOST_STEPS",
    "OPTIONS",
    "RANGES",
    "Assignment",
    "Body",
    "JitFunction",
    "KernelText",
    "Launch",
    "Loop",
    "Node",
    "Swap",
    "Values",
    "argument_of",
    "assigned_names",
    "called_name",
    "calls_within",
    "child_nodes",
    "compact_code",
    "count_uses",
    "expand_names",
    "expression_statement",
    "first_param",
    "free_name",
    "in_launcher",
    "integer_literal",
    "is_changed_between",
    "is_docstring",
    "is_return",
    "launcher_definition",
    "launcher_integer",
    "names_read_first",
    "names_within",
    "nodes_within",
    "numbered_name",
    "parenthesized",
    "parse_expression",
    "parse_kernel",
    "parse_statement",
    "parse_statements",
    "plain_code",
    "product_factors",
    "range_loop",
    "read_module",
    "render_code",
    "render_module",
    "replace_each",
    "running_updates",
    "single_assignment",
    "statements_of",
    "substitute_names",
    "with_body",
    "with_each",
]

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


def _only_small_statement(statement: cst.CSTNode) -> cst.BaseSmallStatement | None:
    if isinstance(statement, cst.SimpleStatementLine) and len(statement.body) == 1:
        return statement.body[0]
    return None


@functools.lru_cache(4096)  # as for `render_code`; the sum is parsed
def single_assignment(statement: cst.CSTNode) -> Assignment | None:
    """Return the statement as an assignment to one name; ``None`` if it is none."""
    small = _only_small_statement(statement)
    if isinstance(small, cst.Assign) and len(small.targets) == 1:
        target = small.targets[0].target
        if isinstance(target, cst.Name):
            return Assignment(target.value, small.value, "", small.value)
    if isinstance(small, cst.AnnAssign) and isinstance(small.target, cst.Name) and small.value:
        return Assignment(small.target.value, small.value, "", small.value)
    if isinstance(small, cst.AugAssign) and isinstance(small.target, cst.Name):
        operator = render_code(small.operator)
        whole = f"{small.target.value} {operator[:-1]} {render_code(parenthesized(small.value))}"
        return Assignment(small.target.value, parse_expression(whole), operator, small.value)
    return None


def assigned_names(*within: cst.CSTNode) -> list[str]:
    """Return the names that statements assign, once for each time."""
    return [name for node in within for name in _assigned_within(node)]


@functools.lru_cache(1024)  # rewrites ask the same statements some hundred times
def _assigned_within(within: cst.CSTNode) -> tuple[str, ...]:
    kinds = (cst.AssignTarget, cst.AugAssign, cst.AnnAssign, cst.For)
    targets = (node.target for node in nodes_within(within) if isinstance(node, kinds))
    return tuple(name for target in targets for name in names_within(target))


def expression_statement(statement: cst.CSTNode) -> cst.BaseExpression | None:
    """Return the expression that is the whole statement, such as a call."""
    small = _only_small_statement(statement)
    return small.value if isinstance(small, cst.Expr) else None


def is_docstring(statement: cst.BaseStatement) -> bool:
    """Tell whether a statement is a text alone."""
    return isinstance(expression_statement(statement), cst.SimpleString)


def is_return(statement: cst.BaseStatement) -> bool:
    """Tell whether a statement is a ``return``."""
    return isinstance(_only_small_statement(statement), cst.Return)


def first_param(function: cst.FunctionDef) -> str:
    """Return the name of a function's first parameter: of a method, the object's; or ``""``."""
    params = [*function.params.posonly_params, *function.params.params]
    return params[0].name.value if params else ""


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
            read |= (names_read_first(loop.body) - {loop.name}) - written
            written.add(loop.name)
        else:
            read |= names_within(statement) - written
    return read


def walk_statements(body: Body) -> Iterator[cst.BaseStatement]:
    """Yield all statements of a body, those within others too."""
    for statement in body:
        yield statement
        yield from walk_statements(statements_of(statement))


# ------------------------------------------------------------------------------- files


OPTIONS = ("num_warps", "num_stages", "num_ctas", "maxnreg")
"""Launch options of Triton that are no parameters of the function."""

_LAUNCHER = "kernel"
_TUNED = ("autotune", "heuristics")


@dataclass(frozen=True)
class JitFunction:
    """A ``@triton.jit`` function.

    Attributes:
        node: its definition.
        params: the names of its parameters.
        constants: those that are ``tl.constexpr``.
        tuned: whether ``@triton.autotune`` or ``@triton.heuristics`` gives it arguments.
    """

    node: cst.FunctionDef
    params: tuple[str, ...]
    constants: frozenset[str]
    tuned: bool

    @property
    def name(self) -> str:
        """Name of the function."""
        return self.node.name.value

    @property
    def body(self) -> list[cst.BaseStatement]:
        """Statements of the function."""
        return statements_of(self.node)

    @cached_property
    def loops(self) -> tuple[Loop, ...]:
        """The loops over ranges among its own statements, not those within others."""
        return tuple(loop for statement in self.body if (loop := range_loop(statement)) is not None)

    @cached_property
    def names(self) -> set[str]:
        """All names in it."""
        return names_within(self.node)

    def reassigned(self, name: str) -> bool:
        """Tell whether a name, such as a parameter's, is assigned within."""
        return name in assigned_names(*self.body)


@dataclass(frozen=True)
class Launch:
    """``function[grid](arguments)`` in a launcher.

    Attributes:
        function: what is launched.
        launcher: where.
        statement, call: the statement, and the call in it.
        grid: as written.
        arguments: by the function's parameter.
        options: of Triton, such as ``num_warps``.
    """

    function: JitFunction
    launcher: cst.FunctionDef
    statement: cst.SimpleStatementLine
    call: cst.Call
    grid: cst.BaseExpression
    arguments: Values
    options: Values

    @cached_property
    def axes(self) -> tuple[cst.BaseExpression, ...] | None:
        """The grid's sizes as expressions of the launcher's names; ``None`` if they are hidden."""
        resolved = _resolve_grid(self.grid, self.launcher, self.arguments)
        return None if resolved is None else tuple(e.value for e in resolved.elements)


@dataclass(frozen=True)
class KernelText:
    """A parsed kernel file.

    Attributes:
        tree: the module.
        functions: its Triton functions by name.
        launcher: the function ``kernel``.
        launches: of its own functions, in the order of the text.
    """

    tree: cst.Module
    functions: Mapping[str, JitFunction]
    launcher: cst.FunctionDef
    launches: tuple[Launch, ...]

    @cached_property
    def names(self) -> set[str]:
        """All names in the file."""
        return names_within(self.tree)

    def fresh(self, name: str) -> str:
        """Return the name, with a number if it is taken."""
        return free_name(name, set(self.names))

    def launches_of(self, name: str) -> list[Launch]:
        """Return all launches of a function."""
        return [launch for launch in self.launches if launch.function.name == name]

    @cached_property
    def live(self) -> tuple[Launch, ...]:
        """The launches that ``kernel`` reaches: others are of a test, or of other shapes."""
        return tuple(e for e in self.launches if e.launcher.name.value in self.reached)

    @cached_property
    def single(self) -> tuple[Launch, ...]:
        """The launches whose function is named only there, and not autotuned.

        ``kernel`` reaches them: what only a test or a benchmark of the file launches is left alone.
        So is what an ``else`` launches where other sizes launch something ahead of it, as behind a
        guard: nothing is measured there.
        """
        plain = (launch for launch in self.live if not launch.function.tuned)
        return tuple(
            launch
            for launch in plain
            if self.is_seen(launch.function.name, 1) and id(launch.statement) not in self._behind
        )

    @cached_property
    def _behind(self) -> set[int]:
        """Ids of the launches in an ``else`` behind another launch."""
        launches = {id(launch.statement) for launch in self.launches}
        launchers = {id(launch.launcher): launch.launcher for launch in self.launches}.values()
        branches = (node for one in launchers for node in nodes_within(one.body))
        behind = set[int]()
        for branch in branches:
            if isinstance(branch, cst.If) and branch.orelse is not None:
                ahead, later = (
                    launches & {id(node) for node in nodes_within(part)}
                    for part in (branch.body, branch.orelse)
                )
                behind |= later if ahead else set()
        return behind

    def is_seen(self, function: str, launches: int) -> bool:
        """Tell whether a function is launched so many times, and named nowhere else."""
        is_launched = len(self.launches_of(function)) == launches
        uses = (count_uses(s, function) for s in self.tree.body if not _has_own(s, function))
        return is_launched and sum(uses) == launches + 1  # its definition

    @cached_property
    def reached(self) -> set[str]:
        """Names of the functions that ``kernel`` calls, those that they call, and its own."""
        bodies = {
            node.name.value: names_within(node.body)
            for node in self.tree.body
            if isinstance(node, cst.FunctionDef)
        }
        reached, pending = set[str](), [self.launcher.name.value]
        while pending:
            name = pending.pop()
            reached.add(name)
            pending += sorted((bodies.get(name, set()) & bodies.keys()) - reached)
        return reached

    def constant(self, name: str) -> cst.BaseExpression | None:
        """Return the value of a module's constant that is assigned once."""
        matches = [
            a
            for statement in self.tree.body
            if (a := single_assignment(statement)) and a.target == name
        ]
        return matches[0].value if len(matches) == 1 else None


def _has_own(statement: cst.CSTNode, name: str) -> bool:
    """Tell whether a function has a name of its own, a parameter's or a local one."""
    if isinstance(statement, cst.FunctionDef):
        params = (n.name.value for n in nodes_within(statement.params) if type(n) is cst.Param)
        return name in {*params, *assigned_names(statement.body)}
    return False


@functools.lru_cache(64)
def parse_kernel(source: str) -> KernelText | None:
    """Parse a kernel file; ``None`` if it has no function ``kernel`` or is no Python."""
    try:
        tree = cst.parse_module(source)
    except cst.ParserSyntaxError:
        return None
    return read_module(tree)


def read_module(tree: cst.Module) -> KernelText | None:
    """Return a kernel file by its syntax tree; ``None`` if it has no function ``kernel``.

    A Triton function of that name is none: other code launches it.
    """
    defined = [statement for statement in tree.body if isinstance(statement, cst.FunctionDef)]
    functions = {f.name: f for node in defined if (f := _jit_function(node)) is not None}
    plain = [node for node in defined if node.name.value not in functions]
    launcher = next((node for node in plain if node.name.value == _LAUNCHER), None)
    if launcher is None:
        return None
    launches = tuple(launch for node in plain for launch in _launches_in(node, functions))
    return KernelText(tree, functions, launcher, launches)


def _jit_function(node: cst.FunctionDef) -> JitFunction | None:
    marks = [render_code(decorator.decorator) for decorator in node.decorators]
    if not any(mark.split("(")[0].split(".")[-1] == "jit" for mark in marks):
        return None
    params = [*node.params.posonly_params, *node.params.params, *node.params.kwonly_params]
    constants = {p.name.value for p in params if _is_constant(p)}
    tuned = any(word in mark for mark in marks for word in _TUNED)
    return JitFunction(node, tuple(p.name.value for p in params), frozenset(constants), tuned)


def _is_constant(param: cst.Param) -> bool:
    return param.annotation is not None and "constexpr" in render_code(param.annotation.annotation)


def _launches_in(
    launcher: cst.FunctionDef, functions: Mapping[str, JitFunction]
) -> Iterator[Launch]:
    for statement in nodes_within(launcher.body):
        if not isinstance(statement, cst.SimpleStatementLine) or len(statement.body) != 1:
            continue
        call = getattr(statement.body[0], "value", None)
        if isinstance(call, cst.Call) and isinstance(call.func, cst.Subscript):
            function = functions.get(render_code(call.func.value))
            if function is not None and (
                launch := _launch_in_call(function, launcher, statement, call)
            ):
                yield launch


def _launch_in_call(
    function: JitFunction,
    launcher: cst.FunctionDef,
    statement: cst.SimpleStatementLine,
    call: cst.Call,
) -> Launch | None:
    subscript = cst.ensure_type(call.func, cst.Subscript)
    slices = [element.slice for element in subscript.slice]
    if any(arg.star for arg in call.args) or not all(isinstance(s, cst.Index) for s in slices):
        return None
    values = [s.value for s in slices if isinstance(s, cst.Index)]
    grid = values[0] if len(values) == 1 else cst.Tuple([cst.Element(v) for v in values])
    arguments: dict[str, cst.BaseExpression] = {}
    options: dict[str, cst.BaseExpression] = {}
    for index, arg in enumerate(call.args):
        name = function.params[index] if arg.keyword is None else arg.keyword.value
        (arguments if name in function.params else options)[name] = arg.value
    return Launch(function, launcher, statement, call, grid, arguments, options)


# ------------------------------------------------------------------------------- grids


def _resolve_grid(
    grid: cst.BaseExpression, launcher: cst.FunctionDef, arguments: Values
) -> cst.Tuple | None:
    if isinstance(grid, cst.Name):
        value = launcher_definition(grid.value, launcher)
        return None if value is None else _resolve_grid(value, launcher, arguments)
    if isinstance(grid, cst.Lambda) and len(grid.params.params) == 1:
        meta = grid.params.params[0].name.value
        body = _without_meta(grid.body, meta, arguments)
        return None if body is None else _resolve_grid(body, launcher, arguments)
    if isinstance(grid, cst.List):
        grid = cst.Tuple(grid.elements)
    plain = isinstance(grid, cst.Tuple) and all(isinstance(e, cst.Element) for e in grid.elements)
    return grid if plain and isinstance(grid, cst.Tuple) else None


def launcher_definition(name: str, launcher: cst.FunctionDef) -> cst.BaseExpression | None:
    """Return what a launcher's name stands for: assigned once, or a function that only returns."""
    definitions: list[cst.BaseExpression] = []
    for statement in walk_statements(statements_of(launcher)):
        binding = single_assignment(statement)
        if binding is not None and binding.target == name:
            definitions.append(binding.value)
        if isinstance(statement, cst.FunctionDef) and statement.name.value == name:
            definitions += _as_lambda(statement)
    is_only = assigned_names(launcher).count(name) <= 1  # others may be in an ``else``, or a tuple
    return definitions[0] if len(definitions) == 1 and is_only else None


def is_changed_between(between: Body, first: Launch) -> bool:
    """Tell whether a launch would be another behind some statements, or may not be reached."""
    read = names_within(*first.arguments.values(), *first.options.values())
    read |= names_within(first.grid, *(first.axes or ()))
    leaves = any(isinstance(node, (cst.Return, cst.Raise)) for node in nodes_within(*between))
    return leaves or bool(read & set(assigned_names(*between)))


def _as_lambda(function: cst.FunctionDef) -> list[cst.BaseExpression]:
    body = statements_of(function)
    only = body[0].body[0] if len(body) == 1 and isinstance(body[0], cst.SimpleStatementLine) else 0
    if not isinstance(only, cst.Return) or only.value is None:
        return []
    params = ", ".join(p.name.value for p in function.params.params)
    return [parse_expression(f"lambda {params}: {render_code(only.value)}")]


class _Meta(cst.CSTTransformer):
    def __init__(self, meta: str, arguments: Values) -> None:
        self._meta, self._arguments, self.unknown = meta, arguments, False

    def leave_Subscript(  # noqa: N802 - libcst's name
        self, original_node: cst.Subscript, updated_node: cst.Subscript
    ) -> cst.BaseExpression:
        if render_code(original_node.value) != self._meta:
            return updated_node
        key = render_code(original_node.slice[0]).strip("'\"")
        self.unknown |= key not in self._arguments
        return self._arguments.get(key, updated_node)


def _without_meta(
    body: cst.BaseExpression, meta: str, arguments: Values
) -> cst.BaseExpression | None:
    visitor = _Meta(meta, arguments)
    visited = body.visit(visitor)
    return visited if isinstance(visited, cst.BaseExpression) and not visitor.unknown else None


def launcher_integer(
    node: cst.BaseExpression, launcher: cst.FunctionDef, text: KernelText
) -> int | None:
    """Return the integer that an expression of a launcher stands for, if the file says so."""
    if isinstance(node, cst.Name):
        own = launcher_definition(node.value, launcher)
        own = own if own is not None else text.constant(node.value)
        return None if own is None else launcher_integer(own, launcher, text)
    return integer_literal(node)


def in_launcher(node: cst.BaseExpression, launch: Launch) -> cst.BaseExpression | None:
    """Return an expression over a function's parameters, as one of its launcher's names.

    ``None`` if it needs something else.
    """
    values = {**launch.arguments}
    if not names_within(node) <= {*values, "tl", "triton"}:
        return None
    text = render_code(substitute_names(node, values)).replace("tl.cdiv", "triton.cdiv")
    return parse_expression(text)
