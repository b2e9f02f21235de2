"""A launcher with its constants as parameters: what a search may vary.

A constant that a launcher sets to a number becomes a keyword-only parameter of a copy of the
launcher, with that number as its default. The copy replaces text in place, so that comments stay.
"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Mapping
from dataclasses import dataclass, field

from solkit.pipeline.starting._functions import Definition, default_pairs, parameters, tile_number
from solkit.pipeline.starting._source import Launch, Source, tile_annotations

_OPTIONS = {"num_warps": 4, "num_stages": 3}  # Triton's defaults on NVIDIA GPUs
_CHOICES = {"num_warps": (2, 4, 8), "num_stages": (2, 3, 4)}
_LEAST_TILE = 16  # of a `tl.dot`, and of a warp's work


@dataclass(frozen=True)
class Tunable:
    """Constants that may vary in a launcher.

    Attributes:
        defaults: by parameter, the value that it has now.
        own: those that the launcher itself takes, by the name that it has there.
        locals: those that a statement of its body sets.
        literals: those that are written into a launch, with the place.
        added: options that a launch leaves at Triton's default.
    """

    defaults: Mapping[str, int] = field(default_factory=dict)
    own: frozenset[str] = frozenset()
    locals: Mapping[str, ast.Assign] = field(default_factory=dict)
    literals: Mapping[str, ast.expr] = field(default_factory=dict)
    added: Mapping[str, Launch] = field(default_factory=dict)


def tunable_constants(source: Source, node: Definition) -> Tunable:
    """Return the constants of a function's own launches that may vary."""
    finder = _Finder(source, node)
    launches = list(source.launches(node))
    if tile_annotations(node):
        for name, value in default_pairs(node):
            finder.add(name, ast.Name(name) if isinstance(value, ast.Constant) else value)
    for launch in launches:
        for name, value in launch.arguments.items():
            if _may_vary_option(launch, name):
                finder.add(name, value)
    if len(launches) == 1 and launches[0].jit is not None:
        finder.add_options(launches[0])
    return Tunable(
        finder.defaults, frozenset(finder.own), finder.locals, finder.literals, finder.added
    )


class _Finder:
    def __init__(self, source: Source, node: Definition) -> None:
        self._source, self._node = source, node
        self._own_defaults = dict(default_pairs(node))
        self.defaults: dict[str, int] = {}
        self.own: set[str] = set()
        self.locals: dict[str, ast.Assign] = {}
        self.literals: dict[str, ast.expr] = {}
        self.added: dict[str, Launch] = {}

    def add(self, name: str, value: ast.expr) -> None:
        """Note where an argument of a launch comes from, if that is a number in the text."""
        if isinstance(value, ast.Name):
            self._add_name(value.id)
        elif (number := tile_number(value)) is not None and self._is_unique_number(
            name, value, number
        ):
            self.literals[name] = value
            self.defaults[name] = number

    def add_options(self, launch: Launch) -> None:
        """Note the options that a launch could have; stages count where there is a loop."""
        is_open = any(keyword.arg is None for keyword in launch.call.keywords)
        if is_open or launch.jit is None or launch.jit.is_autotuned or not launch.call.args:
            return
        for name, default in _OPTIONS.items():
            is_taken = name in launch.arguments or name in self._names_in_use()
            if not is_taken and (name == "num_warps" or launch.jit.has_loop):
                self.added[name] = launch
                self.defaults[name] = default

    def _add_name(self, name: str) -> None:
        if name in self._own_defaults:
            if (number := tile_number(self._own_defaults[name])) is not None:
                self.own.add(name)
                self.defaults[name] = number
            return
        bindings = [node for node in ast.walk(self._node) if _binds_name(node, name)]
        if len(bindings) == 1:
            for statement in self._node.body:
                is_it = isinstance(statement, ast.Assign) and bindings[0] in statement.targets
                if is_it and isinstance(statement, ast.Assign) and len(statement.targets) == 1:
                    self._add_local(name, statement)
        elif not bindings and name not in {parameter.arg for parameter in parameters(self._node)}:
            at_top = self._source.bound.get(name, [])
            only = at_top[0] if len(at_top) == 1 else None
            number = tile_number(only.value) if isinstance(only, ast.Assign) else None
            if number is not None:
                self.defaults[name] = number  # the parameter hides the global

    def _add_local(self, name: str, statement: ast.Assign) -> None:
        if (number := tile_number(statement.value)) is not None:
            self.locals[name] = statement
            self.defaults[name] = number

    def _is_unique_number(self, name: str, value: ast.expr, number: int) -> bool:
        """No other place of the launcher has the number: it might mean the same."""
        if name in self._names_in_use() or name in self.defaults:
            return False
        others = (
            constant for constant in ast.walk(self._node) if isinstance(constant, ast.Constant)
        )
        is_option = name in _OPTIONS
        return is_option or not any(
            constant.value == number and constant is not value for constant in others
        )

    def _names_in_use(self) -> set[str]:
        used = {node.id for node in ast.walk(self._node) if isinstance(node, ast.Name)}
        return used | {parameter.arg for parameter in parameters(self._node)}


def copy_launcher(
    source: Source, node: Definition, knobs: Tunable, name: str
) -> tuple[str, set[str]]:
    """Copy a launcher under another name, with constants as parameters, and list what it uses.

    Returns:
        The text, empty if it cannot be written so; the top-level names that it needs.
    """
    if node.decorator_list or isinstance(node, ast.AsyncFunctionDef):
        return "", set()  # a decorator may register the function under its name
    body = [statement for statement in node.body if statement not in knobs.locals.values()]
    if not body or any(isinstance(part, (ast.Global, ast.Nonlocal)) for part in ast.walk(node)):
        return "", set()
    text = _edited_body(source, node, knobs)
    header = f"def {name}({_copied_signature(node, knobs)}):\n"
    try:
        ast.parse(header + text)
    except SyntaxError:
        return "", set()
    return header + text, _needed_names(source, node, knobs)


def _copied_signature(node: Definition, knobs: Tunable) -> str:
    """Return the parameters, with those that may vary by keyword only."""
    positional = [*node.args.posonlyargs, *node.args.args]
    first = len(positional) - len(node.args.defaults)
    parts = []
    for i, parameter in enumerate(positional):
        if parameter.arg not in knobs.own:
            default = node.args.defaults[i - first] if i >= first else None
            parts.append(_parameter_text(parameter, default))
    parts.append(f"*{node.args.vararg.arg}" if node.args.vararg else "*")
    for parameter, maybe in zip(node.args.kwonlyargs, node.args.kw_defaults):
        if parameter.arg not in knobs.own:
            parts.append(_parameter_text(parameter, maybe))
    parts += [f"{name}={value}" for name, value in knobs.defaults.items()]
    if node.args.kwarg:
        parts.append(f"**{node.args.kwarg.arg}")
    return ", ".join(parts)


def _parameter_text(argument: ast.arg, default: ast.expr | None) -> str:
    text = ast.unparse(argument)
    if default is None:
        return text
    return f"{text} = {ast.unparse(default)}" if ":" in text else f"{text}={ast.unparse(default)}"


def _edited_body(source: Source, node: Definition, knobs: Tunable) -> str:
    """Return the body's lines, without the locals that became parameters."""
    lines = [line.encode() for line in source.text.splitlines(keepends=True)]
    edits = [
        (value.end_lineno or 0, value.end_col_offset or 0, value.col_offset, name)
        for name, value in knobs.literals.items()
    ]
    for name, launch in knobs.added.items():
        last = max(
            [*launch.call.args, *(keyword.value for keyword in launch.call.keywords)],
            key=lambda argument: (argument.end_lineno or 0, argument.end_col_offset or 0),
        )
        at = last.end_col_offset or 0
        edits.append((last.end_lineno or 0, at, at, f", {name}={name}"))
    for line, end, start, text in sorted(edits, reverse=True):
        old = lines[line - 1]
        lines[line - 1] = old[:start] + text.encode() + old[end:]
    dropped = {
        number
        for statement in knobs.locals.values()
        for number in range(statement.lineno, (statement.end_lineno or statement.lineno) + 1)
    }
    numbers = range(node.body[0].lineno, (node.end_lineno or node.lineno) + 1)
    kept = [lines[number - 1].decode() for number in numbers if number not in dropped]
    text = "".join(kept)
    return text if text.endswith("\n") else text + "\n"


def _needed_names(source: Source, node: Definition, knobs: Tunable) -> set[str]:
    used = {part.id for part in ast.walk(node) if isinstance(part, ast.Name)}
    own = {part.arg for part in ast.walk(node) if isinstance(part, ast.arg)}
    used -= own | set(knobs.defaults)
    needed = used & source.bound.keys()
    has_star = any(
        alias.name == "*"
        for statement in source.tree.body
        if isinstance(statement, ast.ImportFrom)
        for alias in statement.names
    )
    if has_star:
        names = (part for part in ast.walk(node) if isinstance(part, ast.Name))
        stored = {name.id for name in names if not isinstance(name.ctx, ast.Load)}
        needed |= {name for name in used - stored if not hasattr(builtins, name)}
    return needed


def _may_vary_option(launch: Launch, name: str) -> bool:
    """Return an option, or a constant that is not merely a switch of the kernel."""
    if name in _OPTIONS:
        return True
    if launch.jit is None or name not in launch.jit.constants or name in launch.jit.computed:
        return False
    tests: set[int] = set()
    for node in ast.walk(launch.jit.node):
        if isinstance(node, (ast.If, ast.IfExp)):
            tests |= {id(part) for part in ast.walk(node.test)}
    return any(
        isinstance(node, ast.Name) and node.id == name and id(node) not in tests
        for node in ast.walk(launch.jit.node)
    )


def _binds_name(node: ast.AST, name: str) -> bool:
    return isinstance(node, ast.Name) and node.id == name and not isinstance(node.ctx, ast.Load)


def values_to_try(name: str, value: int) -> list[int]:
    """Return the values of a parameter to try, around the one that it has."""
    if name in _CHOICES:
        return sorted({*_CHOICES[name], value})
    least = min(value, _LEAST_TILE) if value >= _LEAST_TILE else 1
    return sorted({max(value // 2, least), value, value * 2})
