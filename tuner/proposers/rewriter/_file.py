"""A kernel file, parsed: its Triton functions, its launcher, and what is launched with what.

Rewrites read a file through this module, and write it through
`solkit.tuner.proposers.rewriter._edit`: none searches the tree on its own.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

import libcst as cst

from solkit.tuner.proposers.rewriter._syntax import (
    Loop,
    assigned,
    assignment,
    body_of,
    called,
    calls,
    code,
    expression,
    loop_of,
    names,
    number,
    substitute,
    walk,
)

__all__ = [
    "OPTIONS",
    "JitFunction",
    "KernelText",
    "Launch",
    "definition",
    "in_launcher",
    "parse",
    "read",
    "value_of",
]

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
        return body_of(self.node)

    @cached_property
    def loops(self) -> tuple[Loop, ...]:
        """The loops over ranges among its own statements, not those within others."""
        return tuple(loop for statement in self.body if (loop := loop_of(statement)) is not None)

    @cached_property
    def names(self) -> set[str]:
        """All names in it."""
        return names(self.node)

    def reassigned(self, name: str) -> bool:
        """Tell whether a name, such as a parameter's, is assigned within."""
        return name in assigned(*self.body)


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
    arguments: Mapping[str, cst.BaseExpression]
    options: Mapping[str, cst.BaseExpression]

    @cached_property
    def axes(self) -> tuple[cst.BaseExpression, ...] | None:
        """The grid's sizes as expressions of the launcher's names; ``None`` if they are hidden."""
        resolved = _resolved(self.grid, self.launcher, self.arguments)
        return None if resolved is None else tuple(e.value for e in resolved.elements)

    def alone(self, param: str) -> bool:
        """Tell whether no other parameter gets the same argument: no tensor has two names."""
        mine = code(self.arguments[param])
        return sum(code(value) == mine for value in self.arguments.values()) == 1


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
        return names(self.tree)

    def fresh(self, name: str) -> str:
        """Return the name, with a number if it is taken."""
        taken, count, free = self.names, 2, name
        while free in taken:
            free, count = f"{name}_{count}", count + 1
        return free

    def launches_of(self, name: str) -> list[Launch]:
        """Return all launches of a function."""
        return [launch for launch in self.launches if launch.function.name == name]

    @cached_property
    def single(self) -> tuple[Launch, ...]:
        """The launches whose function is launched only there, called nowhere, and not autotuned."""
        inner = {called(call) for f in self.functions.values() for call in calls(f.node)}
        return tuple(
            launch
            for launch in self.launches
            if len(self.launches_of(launch.function.name)) == 1
            and launch.function.name not in inner
            and not launch.function.tuned
        )

    def constant(self, name: str) -> cst.BaseExpression | None:
        """Return the value of a module's constant that is assigned once."""
        matches = [
            a for statement in self.tree.body if (a := assignment(statement)) and a.target == name
        ]
        return matches[0].value if len(matches) == 1 else None


@functools.lru_cache(64)
def parse(source: str) -> KernelText | None:
    """Parse a kernel file; ``None`` if it has no function ``kernel`` or is no Python."""
    try:
        tree = cst.parse_module(source)
    except cst.ParserSyntaxError:
        return None
    return read(tree)


def read(tree: cst.Module) -> KernelText | None:
    """Return a kernel file by its syntax tree; ``None`` if it has no function ``kernel``."""
    defined = [statement for statement in tree.body if isinstance(statement, cst.FunctionDef)]
    functions = {f.name: f for node in defined if (f := _jit(node)) is not None}
    launcher = next((node for node in defined if node.name.value == _LAUNCHER), None)
    if launcher is None:
        return None
    plain = [node for node in defined if node.name.value not in functions]
    launches = tuple(launch for node in plain for launch in _launches(node, functions))
    return KernelText(tree, functions, launcher, launches)


def _jit(node: cst.FunctionDef) -> JitFunction | None:
    marks = [code(decorator.decorator) for decorator in node.decorators]
    if not any(mark.split("(")[0].split(".")[-1] == "jit" for mark in marks):
        return None
    params = [*node.params.posonly_params, *node.params.params, *node.params.kwonly_params]
    constants = {p.name.value for p in params if _is_constant(p)}
    tuned = any(word in mark for mark in marks for word in _TUNED)
    return JitFunction(node, tuple(p.name.value for p in params), frozenset(constants), tuned)


def _is_constant(param: cst.Param) -> bool:
    return param.annotation is not None and "constexpr" in code(param.annotation.annotation)


def _launches(launcher: cst.FunctionDef, functions: Mapping[str, JitFunction]) -> Iterator[Launch]:
    for statement in walk(body_of(launcher)):
        if not isinstance(statement, cst.SimpleStatementLine) or len(statement.body) != 1:
            continue
        call = getattr(statement.body[0], "value", None)
        if isinstance(call, cst.Call) and isinstance(call.func, cst.Subscript):
            function = functions.get(code(call.func.value))
            if function is not None and (launch := _launch(function, launcher, statement, call)):
                yield launch


def _launch(
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


def _resolved(
    grid: cst.BaseExpression,
    launcher: cst.FunctionDef,
    arguments: Mapping[str, cst.BaseExpression],
) -> cst.Tuple | None:
    if isinstance(grid, cst.Name):
        value = definition(grid.value, launcher)
        return None if value is None else _resolved(value, launcher, arguments)
    if isinstance(grid, cst.Lambda) and len(grid.params.params) == 1:
        meta = grid.params.params[0].name.value
        body = _without_meta(grid.body, meta, arguments)
        return None if body is None else _resolved(body, launcher, arguments)
    if isinstance(grid, cst.List):
        grid = cst.Tuple(grid.elements)
    plain = isinstance(grid, cst.Tuple) and all(isinstance(e, cst.Element) for e in grid.elements)
    return grid if plain and isinstance(grid, cst.Tuple) else None


def definition(name: str, launcher: cst.FunctionDef) -> cst.BaseExpression | None:
    """Return what a launcher's name stands for: assigned once, or a function that only returns."""
    definitions: list[cst.BaseExpression] = []
    for statement in walk(body_of(launcher)):
        binding = assignment(statement)
        if binding is not None and binding.target == name:
            definitions.append(binding.value)
        if isinstance(statement, cst.FunctionDef) and statement.name.value == name:
            definitions += _as_lambda(statement)
    return definitions[0] if len(definitions) == 1 else None


def _as_lambda(function: cst.FunctionDef) -> list[cst.BaseExpression]:
    body = body_of(function)
    only = body[0].body[0] if len(body) == 1 and isinstance(body[0], cst.SimpleStatementLine) else 0
    if not isinstance(only, cst.Return) or only.value is None:
        return []
    params = ", ".join(p.name.value for p in function.params.params)
    return [expression(f"lambda {params}: {code(only.value)}")]


class _Meta(cst.CSTTransformer):
    def __init__(self, meta: str, arguments: Mapping[str, cst.BaseExpression]) -> None:
        self._meta, self._arguments, self.unknown = meta, arguments, False

    def leave_Subscript(  # noqa: N802 - libcst's name
        self, original_node: cst.Subscript, updated_node: cst.Subscript
    ) -> cst.BaseExpression:
        if code(original_node.value) != self._meta:
            return updated_node
        key = code(original_node.slice[0]).strip("'\"")
        self.unknown |= key not in self._arguments
        return self._arguments.get(key, updated_node)


def _without_meta(
    body: cst.BaseExpression, meta: str, arguments: Mapping[str, cst.BaseExpression]
) -> cst.BaseExpression | None:
    visitor = _Meta(meta, arguments)
    visited = body.visit(visitor)
    return visited if isinstance(visited, cst.BaseExpression) and not visitor.unknown else None


def value_of(node: cst.BaseExpression, launcher: cst.FunctionDef, text: KernelText) -> int | None:
    """Return the integer that an expression of a launcher stands for, if the file says so."""
    if isinstance(node, cst.Name):
        own = definition(node.value, launcher)
        own = own if own is not None else text.constant(node.value)
        return None if own is None else value_of(own, launcher, text)
    return number(node)


def in_launcher(
    node: cst.BaseExpression, launch: Launch, allowed: frozenset[str] = frozenset()
) -> cst.BaseExpression | None:
    """Return an expression over a function's parameters, as one of its launcher's names.

    ``None`` if it needs something else.
    """
    values = {**launch.arguments}
    if not names(node) <= {*values, "tl", "triton", *allowed}:
        return None
    text = code(substitute(node, values)).replace("tl.cdiv", "triton.cdiv")
    return expression(text)
