"""A kernel file as a syntax tree: Triton functions, launcher, launches."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

import libcst as cst

from solkit.tuner.proposers.rewriter._nodes import (
    Body,
    Loop,
    Values,
    all_params,
    assigned_names,
    count_uses,
    free_name,
    functions_in,
    integer_literal,
    names_within,
    nodes_within,
    parse_expression,
    range_loop,
    reached_names,
    render_code,
    single_assignment,
    statements_of,
    substitute_names,
    walk_statements,
)

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

    @classmethod
    def of(cls, node: cst.FunctionDef) -> JitFunction:
        """Return a function by its definition."""
        marks = " ".join(render_code(decorator.decorator) for decorator in node.decorators)
        params = {param.name.value: _is_constant(param) for param in all_params(node)}
        constants = frozenset(name for name, is_constant in params.items() if is_constant)
        return cls(node, tuple(params), constants, tuned=any(word in marks for word in _TUNED))

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
        functions = functions_in(self.tree.body)
        bodies = {name: names_within(node.body) for name, node in functions.items()}
        return reached_names(bodies, self.launcher.name.value)

    @cached_property
    def used(self) -> dict[str, JitFunction]:
        """Triton functions that ``kernel`` reaches: others are of a test, or of other shapes."""
        return {name: f for name, f in self.functions.items() if name in self.reached}

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
    is_jit = any(mark.split("(")[0].split(".")[-1] == "jit" for mark in marks)
    return JitFunction.of(node) if is_jit else None


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
