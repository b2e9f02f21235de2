"""Kernels, launches, functions and classes of a Python file, from its syntax tree alone."""

from __future__ import annotations

import ast
import functools
import tokenize
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from solkit.core.syntax import (
    Meanings,
    dotted_full_names,
    imported_full_names,
    jitted_functions,
    names_bound_by,
    names_used_by,
    why_not_python,
)
from solkit.errors import KernelFileError
from solkit.pipeline.starting._extensions import CppParameter, bound_functions
from solkit.pipeline.starting._factories import factories_of
from solkit.pipeline.starting._functions import Definition, parameters
from solkit.pipeline.starting._pointers import Pointers, pointers_of

_DEVICE_CODE = frozenset(
    {"cuda.tile.kernel", "cutlass.cute.jit", "cutlass.cute.kernel", "tilelang.jit"}
)
"""Decorators of functions for the GPU, which others launch."""
_MAKERS = _DEVICE_CODE | {
    "cutlass.cute.compile",
    "helion.kernel",  # of a function that takes PyTorch's tensors: it launches itself
    "tilelang.compile",
    "torch.utils.cpp_extension.load",
    "torch.utils.cpp_extension.load_inline",
}
"""Calls and decorators that make kernels in the languages that are not Triton's."""


@dataclass(frozen=True)
class Jit:
    """A function that Triton compiles.

    Attributes:
        name: what the file calls it.
        node: its definition.
        tuned: parameters that the configurations of an autotuner set.
        computed: parameters that ``triton.heuristics`` computes.
        is_autotuned: there is an autotuner, even if its configurations are made elsewhere.
        pointers: what it accesses.
    """

    name: str
    node: ast.FunctionDef
    tuned: frozenset[str]
    computed: frozenset[str]
    is_autotuned: bool
    pointers: Pointers

    @property
    def parameters(self) -> tuple[str, ...]:
        """Their names, in order."""
        return tuple(parameter.arg for parameter in parameters(self.node))

    @property
    def constants(self) -> tuple[str, ...]:
        """Parameters that are annotated as ``constexpr``."""
        return tuple(
            parameter.arg for parameter in parameters(self.node) if _is_constexpr(parameter)
        )

    @property
    def has_loop(self) -> bool:
        """A loop is what Triton pipelines."""
        return any(isinstance(part, (ast.For, ast.While)) for part in ast.walk(self.node))


@dataclass(frozen=True)
class Launch:
    """A call ``kernel[grid](...)``.

    Attributes:
        name: of the kernel.
        jit: the kernel, if the file defines it.
        call: the call.
    """

    name: str
    jit: Jit | None
    call: ast.Call

    @property
    def arguments(self) -> dict[str, ast.expr]:
        """The arguments by the kernel's parameter names; those by position need the kernel."""
        named = {keyword.arg: keyword.value for keyword in self.call.keywords if keyword.arg}
        if self.jit is None or any(isinstance(arg, ast.Starred) for arg in self.call.args):
            return named
        return {**dict(zip(self.jit.parameters, self.call.args)), **named}


class Source:
    """A parsed file.

    Attributes:
        path: the file, as the user gave it.
        text: what it holds.
        tree: its syntax tree.
        imported: the full names behind names that imports bind.
        bound: for each top-level name the statements that bind it.
        functions: top-level functions for the host.
        factories: TileLang's functions that make a kernel, by name.
        device_functions: names of top-level functions for the GPU that are not Triton's.
        classes: top-level classes.
    """

    def __init__(self, path: str, text: str, tree: ast.Module) -> None:
        self.path, self.text, self.tree = path, text, tree
        self.imported: Meanings = imported_full_names(ast.walk(tree))
        self.bound: dict[str, list[ast.stmt]] = {}
        for statement in _top_level_statements(tree.body):
            for name in names_bound_by(statement):
                self.bound.setdefault(name, []).append(statement)
        compiled = self.kernels.keys() | {jit.node.name for jit in self.kernels.values()}
        defined = [
            statement
            for statement in _top_level_statements(tree.body)
            if isinstance(statement, Definition)
        ]
        self.factories = {
            factory.name: factory for factory in factories_of(list(defined), self.imported)
        }
        self.device_functions = tuple(
            definition.name
            for definition in defined
            if any(self._names_one_of(_DEVICE_CODE, d) for d in definition.decorator_list)
            and not tile_annotations(definition)
            and definition.name not in self.factories
        )
        apart = {*compiled, *self.device_functions, *self.factories}
        self.functions = {
            definition.name: definition for definition in defined if definition.name not in apart
        }
        classes = (
            statement
            for statement in _top_level_statements(tree.body)
            if isinstance(statement, ast.ClassDef)
        )
        self.classes = {owner.name: owner for owner in classes}

    @functools.cached_property
    def kernels(self) -> Mapping[str, Jit]:
        """By name, all that Triton compiles, helpers included."""
        names = jitted_functions(self.tree)
        every = (node for node in ast.walk(self.tree) if isinstance(node, ast.FunctionDef))
        nodes = {node.name: node for node in every}
        definitions = {name: (nodes[name], nodes[name].decorator_list) for name in names}
        for statement in _top_level_statements(self.tree.body):
            if isinstance(statement, ast.Assign) and isinstance(statement.value, ast.Call):
                wrappers, inner = self._unwrap_calls(statement.value)
                if inner in nodes and (inner in names or self._is_jit_wrapper(wrappers)):
                    for target in statement.targets:
                        if isinstance(target, ast.Name):
                            definitions[target.id] = (nodes[inner], wrappers)
        helpers = {name: node for name, (node, _) in definitions.items()}
        ordered = sorted(definitions.items(), key=lambda item: (item[1][0].lineno, item[0]))
        return {
            name: self._jit_of_definition(name, node, [*wrappers, *node.decorator_list], helpers)
            for name, (node, wrappers) in ordered
        }

    @functools.cached_property
    def entries(self) -> tuple[str, ...]:
        """Kernels that no other kernel calls."""
        called = {
            name
            for jit in self.kernels.values()
            for part in ast.walk(jit.node)
            if isinstance(part, ast.Call) and isinstance(part.func, ast.Name)
            for name in (part.func.id,)
            if name != jit.name
        }
        return tuple(name for name in self.kernels if name not in called)

    def launches(self, node: ast.AST) -> Iterator[Launch]:
        """Yield the launches in a piece of code."""
        for part in ast.walk(node):
            if isinstance(part, ast.Call) and isinstance(part.func, ast.Subscript):
                name = self._launched_kernel(part.func.value)
                if name is not None:
                    yield Launch(name, self.kernels.get(name), part)

    def tile_launches(self, node: ast.AST) -> Iterator[Launch]:
        """Yield the launches of cuTile's kernels in a piece of code: ``ct.launch``."""
        functions = {n.name: n for n in ast.walk(self.tree) if isinstance(n, ast.FunctionDef)}
        for part in ast.walk(node):
            if not isinstance(part, ast.Call) or len(part.args) != 4:
                continue
            kernel, passed = part.args[2:]
            is_launch = "cuda.tile.launch" in dotted_full_names(part.func, self.imported)
            if is_launch and isinstance(kernel, ast.Name) and isinstance(passed, ast.Tuple):
                body = functions.get(kernel.id)
                if body is not None:
                    none, pointers = frozenset[str](), pointers_of(body, functions, self.imported)
                    jit = Jit(kernel.id, body, none, none, False, pointers)
                    yield Launch(kernel.id, jit, ast.Call(part.func, passed.elts, []))

    @functools.cached_property
    def bound_functions(self) -> Mapping[str, tuple[CppParameter, ...]]:
        """Functions in C++ that the file may bind, by the names that it calls."""
        makes = self._names_one_of(_MAKERS, self.tree)
        return bound_functions(self.path, self.tree) if makes else {}

    def bound_arguments(self, node: ast.AST) -> Iterator[tuple[str, CppParameter]]:
        """Yield the names that calls in a piece of code hand to functions in C++."""
        for call in ast.walk(node):
            called = call.func if isinstance(call, ast.Call) else None
            if not isinstance(call, ast.Call) or not isinstance(called, ast.Attribute):
                continue
            for parameter, value in zip(self.bound_functions.get(called.attr, ()), call.args):
                if isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute):
                    value = value.func.value  # x.contiguous()
                if isinstance(value, ast.Name):
                    yield value.id, parameter

    @functools.cached_property
    def launching(self) -> frozenset[str]:
        """Functions and classes that launch a kernel, themselves or through others."""
        nodes = {name: ast.Module([*bound], []) for name, bound in self.bound.items()}
        registers = any(  # load_inline(..., is_python_module=False): its operators are torch.ops'
            isinstance(statement, ast.Expr) and self._names_one_of(_MAKERS, statement)
            for statement in _top_level_statements(self.tree.body)
        )
        launchers = {
            name
            for name, node in nodes.items()
            if any(self.launches(node))
            or self._names_one_of(_MAKERS, node)
            or (registers and self._names_operator(node))
        }
        uses = {name: names_used_by(node) & nodes.keys() - {name} for name, node in nodes.items()}
        while more := {name for name, used in uses.items() if used & launchers} - launchers:
            launchers |= more
        return frozenset(launchers)

    @functools.cached_property
    def aliases(self) -> Mapping[str, ast.expr]:
        """Top-level names that are bound once, to an expression: ``softmax = Softmax.apply``."""
        return {
            name: bindings[0].value
            for name, bindings in self.bound.items()
            if len(bindings) == 1
            and isinstance(bindings[0], ast.Assign)
            and name not in self.kernels
        }

    def forward(self, owner: ast.ClassDef) -> tuple[Definition | None, int]:
        """Return a class's ``forward``, and the number of leading parameters that callers omit."""
        methods = {method.name: method for method in owner.body if isinstance(method, Definition)}
        has_context = self.is_function(owner) and "setup_context" not in methods
        forward = methods.get("forward")
        decorators = forward.decorator_list if forward is not None else []
        has_class = any(isinstance(d, ast.Name) and d.id == "classmethod" for d in decorators)
        return forward, has_class + int(has_context or not self.is_function(owner))

    def is_function(self, owner: ast.ClassDef) -> bool:
        """Tell if a class derives from ``torch.autograd.Function``."""
        return any(
            full.split(".")[-1] == "Function"
            or (full != owner.name and self._derives_from_function(full))
            for base in owner.bases
            for full in dotted_full_names(base, self.imported)
        )

    def _derives_from_function(self, name: str) -> bool:
        return name in self.classes and self.is_function(self.classes[name])

    def _names_one_of(self, full_names: frozenset[str], node: ast.AST) -> bool:
        """Tell if code names one of some functions of packages."""
        return any(
            full in full_names
            for part in ast.walk(node)
            if isinstance(part, (ast.Attribute, ast.Name))
            for full in dotted_full_names(part, self.imported)
        )

    def _names_operator(self, node: ast.AST) -> bool:
        """Tell if code names an operator below ``torch.ops``."""
        return any(
            full.startswith("torch.ops.")
            for part in ast.walk(node)
            if isinstance(part, ast.Attribute)
            for full in dotted_full_names(part, self.imported)
        )

    def _launched_kernel(self, value: ast.expr) -> str | None:
        if isinstance(value, ast.Call) and value.args:  # wrap_triton(kernel)[grid](...)
            value = value.args[0]
        if not isinstance(value, ast.Name):
            return None
        return value.id if value.id in self.kernels or self._is_from_elsewhere(value.id) else None

    def _is_from_elsewhere(self, name: str) -> bool:
        return any(isinstance(binding, ast.ImportFrom) for binding in self.bound.get(name, ()))

    def _unwrap_calls(self, value: ast.expr) -> tuple[list[ast.expr], str]:
        """Return the calls around a function, outermost first, and its name."""
        wrappers: list[ast.expr] = []
        while isinstance(value, ast.Call) and value.args:
            wrappers.append(value.func)
            value = value.args[0]
        return wrappers, value.id if isinstance(value, ast.Name) else ""

    def _is_jit_wrapper(self, wrappers: list[ast.expr]) -> bool:
        called = [
            wrapper.func if isinstance(wrapper, ast.Call) else wrapper for wrapper in wrappers
        ]
        return any(
            full == "triton.jit"
            for wrapper in called
            for full in dotted_full_names(wrapper, self.imported)
        )

    def _jit_of_definition(
        self,
        name: str,
        node: ast.FunctionDef,
        wrappers: list[ast.expr],
        helpers: Mapping[str, ast.FunctionDef],
    ) -> Jit:
        calls = [wrapper for wrapper in wrappers if isinstance(wrapper, ast.Call)]
        tuners = [call for call in calls if self._is_tuner_call(call)]
        named = {parameter.arg for parameter in parameters(node)}
        heuristics = [call for call in calls if self._ends_in_name(call, "heuristics")]
        return Jit(
            name,
            node,
            frozenset(key for tuner in tuners for key in self._keys_of_dicts(tuner)) & named,
            frozenset(key for heuristic in heuristics for key in self._keys_of_dicts(heuristic))
            & named,
            bool(tuners),
            pointers_of(node, helpers, self.imported),
        )

    def _is_tuner_call(self, call: ast.Call) -> bool:
        has_configs = any(keyword.arg == "configs" for keyword in call.keywords)
        return has_configs or self._ends_in_name(call, "autotune")

    def _ends_in_name(self, call: ast.Call, name: str) -> bool:
        return any(
            full.split(".")[-1] == name for full in dotted_full_names(call.func, self.imported)
        )

    def _keys_of_dicts(self, call: ast.Call) -> set[str]:
        """Return the texts that are keys in a call's dicts, and in those of what it names."""
        nodes: list[ast.AST] = [call]
        for name in names_used_by(call) & self.bound.keys():
            nodes += self.bound[name]
        return {
            key.value
            for node in nodes
            for part in ast.walk(node)
            if isinstance(part, ast.Dict)
            for key in part.keys
            if isinstance(key, ast.Constant) and isinstance(key.value, str)
        }


def read_source(path: str) -> Source:
    """Parse a file; nothing of it runs.

    Raises:
        KernelFileError: it is no Python file, or has an error; names the line.
    """
    file = Path(path)
    if file.is_dir():
        raise KernelFileError("is a folder; name a Python file with a kernel", path)
    if file.suffix != ".py":
        raise KernelFileError(why_not_python(file), path)
    try:
        with tokenize.open(path) as opened:
            text = opened.read()
        tree = ast.parse(text, path)
    except SyntaxError as error:  # tokenize raises it for an unknown encoding, too
        raise KernelFileError(f"is not valid Python: {error.msg}", path, error.lineno) from error
    except (OSError, UnicodeDecodeError, ValueError) as error:
        raise KernelFileError(f"cannot be read: {error}", path) from error
    except (RecursionError, MemoryError) as error:
        raise KernelFileError("is nested too deeply to be parsed", path) from error
    return Source(path, text, tree)


def tile_annotations(node: Definition) -> dict[str, ast.Call]:
    """Return what TileLang's ``x: T.Tensor((M, N), dtype)`` in a body says of parameters.

    Such a function is called with PyTorch's tensors: it launches itself.
    """
    names = {parameter.arg for parameter in parameters(node)}
    return {
        statement.target.id: statement.annotation
        for statement in node.body
        if isinstance(statement, ast.AnnAssign)
        and isinstance(statement.target, ast.Name)
        and isinstance(statement.annotation, ast.Call)
        and statement.target.id in names
        and ast.unparse(statement.annotation.func).split(".")[-1].endswith("Tensor")
    }


def _top_level_statements(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """Top-level statements, those under ``if``, ``try`` and ``with`` as well."""
    for statement in body:
        if isinstance(statement, (ast.If, ast.Try, ast.With)):
            for field in ("body", "orelse", "finalbody"):
                yield from _top_level_statements(getattr(statement, field, []))
            for handler in getattr(statement, "handlers", []):
                yield from _top_level_statements(handler.body)
        else:
            yield statement


def _is_constexpr(argument: ast.arg) -> bool:
    if argument.annotation is None:
        return False
    return ast.unparse(argument.annotation).strip("'\"").split(".")[-1] == "constexpr"
