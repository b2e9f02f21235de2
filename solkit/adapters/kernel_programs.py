"""Programs of launched Triton kernels: each function's text, and meanings of the names in it."""

from __future__ import annotations

import ast
import builtins
import inspect
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from types import ModuleType
from typing import Any

import triton.language as tl
from triton.runtime.jit import JITFunction

from solkit.core.kernel_programs import Binding, FunctionOrigin, KernelFunction, KernelProgram
from solkit.core.values import Value

_PLAIN = (bool, int, float, str)
_TRITON = "triton."


@dataclass(frozen=True)
class ProgramContext:
    """Lines that a program's text needs around it to be a file.

    Attributes:
        imports: modules that names stand for, by function and name: ``"tl"`` is
            ``"triton.language"``.
        decorators: by function, e.g. ``"@triton.jit(noinline=True)"``.
        helpers: texts of functions that the compiler calls, by qualified name: those that need
            nothing but Triton, torch and Python.
        origins: module and line of each function.
    """

    imports: Mapping[str, Mapping[str, str]]
    decorators: Mapping[str, str]
    helpers: Mapping[str, str]
    origins: Mapping[str, FunctionOrigin]


@lru_cache(maxsize=4096)
def context_of_kernel(
    function: JITFunction[Any], passed: tuple[JITFunction[Any], ...] = ()
) -> ProgramContext:
    """Return the context of `program_of_kernel`, which takes the same arguments."""
    collector = _Collector()
    collector.program(function, passed)
    functions = collector.functions
    return ProgramContext(
        {key: dict(_modules_named(part)) for key, part in functions.items()},
        {key: _decorator_text(part) for key, part in functions.items()},
        {name: text for part in functions.values() for name, text in _helpers_of(part)},
        {
            key: FunctionOrigin(part.fn.__module__, part.starting_line_number, part.hash or "")
            for key, part in functions.items()
        },
    )


_STANDARD = ("triton", "torch", "math", "builtins")


def _helpers_of(function: JITFunction[Any]) -> Iterator[tuple[str, str]]:
    """Yield functions of Python that a kernel calls while it is compiled, with their texts."""
    scope = _scope_of(function)
    for path in _free_paths(function.parse()):
        value = _resolve_path(path, scope)[1]
        decorator = ""
        if isinstance(value, tl.constexpr):
            value, decorator = value.value, "@tl.constexpr\n"
        elif type(value).__name__ == "ConstexprFunction":
            value, decorator = value.fn, "@triton.constexpr_function\n"
        if not inspect.isfunction(value) or value.__module__.partition(".")[0] in _STANDARD:
            continue
        text = _helper_text(value, decorator)
        if text:
            yield f"{value.__module__}.{value.__qualname__}", text


def _helper_text(function: Any, decorator: str) -> str:
    """Return a function's definition with its imports; empty if it needs anything else."""
    try:
        source = textwrap.dedent(inspect.getsource(function))
        tree = ast.parse(source).body[0]
    except (OSError, SyntaxError, TypeError):
        return ""
    imports: dict[str, None] = {}
    scope = {**vars(builtins), **function.__globals__}
    assert isinstance(tree, ast.FunctionDef)
    tree.decorator_list = []
    for root in {path[0] for path in _free_paths(tree)}:
        value = scope.get(root)
        if not isinstance(value, ModuleType):
            if value is not vars(builtins).get(root):
                return ""
        elif value.__name__.partition(".")[0] not in _STANDARD:
            return ""
        else:
            imports.setdefault(f"import {value.__name__} as {root}\n")
    lines = source.splitlines(keepends=True)[tree.lineno - 1 :]
    return "".join([*sorted(imports), "\n\n", decorator, *lines]).strip()


def _modules_named(function: JITFunction[Any]) -> Iterator[tuple[str, str]]:
    """Yield the paths of a function that are modules, with the modules' own names."""
    scope = _scope_of(function)
    for path in _free_paths(function.parse()):
        value = scope.get(path[0])
        for place in range(1, len(path) + 1):
            if not isinstance(value, ModuleType):
                break
            yield ".".join(path[:place]), value.__name__
            value = getattr(value, path[place], None) if place < len(path) else None


def _decorator_text(function: JITFunction[Any]) -> str:
    language = "gluon" if function.is_gluon() else "triton"
    settings = {
        name: getattr(function, name, None)
        for name in ("do_not_specialize", "do_not_specialize_on_alignment", "noinline")
    }
    passed = ", ".join(f"{name}={value!r}" for name, value in settings.items() if value)
    return f"@{language}.jit({passed})" if passed else f"@{language}.jit"


@lru_cache(maxsize=4096)
def program_of_kernel(
    function: JITFunction[Any], passed: tuple[JITFunction[Any], ...] = ()
) -> KernelProgram:
    """Return the program of a kernel.

    Triton refuses to launch a kernel whose constants changed since it was compiled, so a program
    holds for all launches.

    Args:
        function: the kernel.
        passed: functions that it gets as compile-time constants.
    """
    return _Collector().program(function, passed)


def binding_of_value(value: Any, program: KernelProgram | None = None) -> Binding:
    """Return what a compile-time constant stands for.

    Args:
        value: the constant.
        program: that has the functions which constants name; without it they are unknown.
    """
    collector = _Collector()
    binding = collector.binding(value)
    keys = program.functions if program is not None else {}
    return Binding() if binding.kind == "function" and binding.text not in keys else binding


@lru_cache(maxsize=4096, typed=True)
def _constant_binding(value: Value) -> Binding:
    """Return one object for equal constants: thousands of candidates get the same."""
    return Binding("constant", value)


class _Collector:
    """Collects functions until all that are called are there."""

    def __init__(self) -> None:
        self.functions: dict[str, JITFunction[Any]] = {}
        self._keys: dict[int, str] = {}
        self._waiting: list[tuple[str, JITFunction[Any]]] = []

    def program(
        self, function: JITFunction[Any], passed: Sequence[JITFunction[Any]]
    ) -> KernelProgram:
        """Return the program of a function, with further ones that it is passed."""
        entry = self._key(function)
        for other in passed:
            self._key(other)
        functions: dict[str, KernelFunction] = {}
        while self._waiting:
            key, waiting = self._waiting.pop(0)
            functions[key] = self._kernel_function(waiting)
        return KernelProgram(entry, functions)

    def binding(self, value: Any) -> Binding:
        """Return the meaning of an object of Python."""
        if isinstance(value, tl.constexpr):
            value = value.value
        if value is None or isinstance(value, _PLAIN):
            return _constant_binding(value)
        if isinstance(value, tl.dtype):
            return Binding("type", text=str(value))
        if isinstance(value, (tuple, list)):
            return Binding("items", items=tuple(map(self.binding, value)))
        while not isinstance(value, JITFunction) and isinstance(
            getattr(value, "base_fn", None) or getattr(value, "fn", None), JITFunction
        ):
            value = value.fn  # under heuristics or an autotuner
        module, name = getattr(value, "__module__", None), getattr(value, "__qualname__", None)
        if isinstance(value, JITFunction) and not f"{module}.".startswith(_TRITON):
            return Binding("function", text=self._key(value))
        if isinstance(module, str) and isinstance(name, str):
            return Binding("library", text=f"{module}.{name}")
        return Binding()

    def _key(self, function: JITFunction[Any]) -> str:
        if id(function) not in self._keys:
            stem = function.__qualname__
            same = sum(key.partition("#")[0] == stem for key in self._keys.values())
            self._keys[id(function)] = f"{stem}#{same + 1}" if same else stem
            self._waiting.append((self._keys[id(function)], function))
            self.functions[self._keys[id(function)]] = function
        return self._keys[id(function)]

    def _kernel_function(self, function: JITFunction[Any]) -> KernelFunction:
        scope = _scope_of(function)
        names: dict[str, Binding] = {}
        for path in _free_paths(function.parse()):
            dotted, value = _resolve_path(path, scope)
            if dotted and dotted not in names:
                names[dotted] = self.binding(value)
        return KernelFunction(function.src, names)


def _scope_of(function: JITFunction[Any]) -> Mapping[str, Any]:
    nonlocals = inspect.getclosurevars(function.fn).nonlocals
    return {**vars(builtins), **function.fn.__globals__, **nonlocals}


def _free_paths(tree: ast.AST) -> Iterator[tuple[str, ...]]:
    """Yield names and their attributes, such as ``("tl", "math", "exp")``."""
    bound = {node.arg for node in ast.walk(tree) if isinstance(node, ast.arg)} | {
        node.id
        for node in ast.walk(tree)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
    }
    for node in ast.walk(tree):
        path: tuple[str, ...] = ()
        inner: ast.AST = node
        while isinstance(inner, ast.Attribute):
            path, inner = (inner.attr, *path), inner.value
        if isinstance(inner, ast.Name) and inner.id not in bound:
            yield (inner.id, *path)


def _resolve_path(path: Sequence[str], scope: Mapping[str, Any]) -> tuple[str, Any]:
    """Return the first part of a path that is no module, and its value; empty if it has none."""
    missing = object()
    value = scope.get(path[0], missing)
    place = 1
    while isinstance(value, (ModuleType, type)) and place < len(path):
        value = getattr(value, path[place], missing)
        place += 1
    if value is missing or isinstance(value, ModuleType):
        return "", None
    return ".".join(path[:place]), value
