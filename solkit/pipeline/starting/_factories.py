"""TileLang's functions that make a kernel for given sizes: factories of a ``T.prim_func``.

``def matmul(M, N, K, block): @T.prim_func def main(A: T.Tensor((M, K), dtype), ...)`` says in its
annotations which tensors the kernel takes. What its call returns is a kernel, or is compiled first.
"""

from __future__ import annotations

import ast
import functools
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

from solkit.core.syntax import Meanings, dotted_full_names
from solkit.pipeline.starting._functions import (
    Definition,
    default_pairs,
    parameters,
    tile_number,
)

_JIT, _COMPILE = "tilelang.jit", "tilelang.compile"
_TUNERS = ("tilelang.autotune", "tilelang.autotuner.autotune")
_DEEPEST = 8  # locals within locals
_TILE_DTYPES = {
    "float": "float32",
    "int": "int32",
    "float8_e4m3": "float8_e4m3fn",
    "e4m3_float8": "float8_e4m3fn",
    "e5m2_float8": "float8_e5m2",
}
"""TileLang's other names of dtypes."""


@dataclass(frozen=True)
class Factory:
    """A function that makes a kernel.

    Attributes:
        name: of the function, or of a kernel without sizes.
        node: the function.
        inner: the kernel within it.
        is_compiled: a call of the function gives a kernel that can be called.
        is_tuned: an autotuner sets the parameters without a default.
        returned: places of the kernel's arguments that it allocates and returns.
    """

    name: str
    node: ast.FunctionDef
    inner: ast.FunctionDef
    is_compiled: bool
    is_tuned: bool
    returned: tuple[int, ...]

    @property
    def has_sizes(self) -> bool:
        """False for a kernel that stands in no function."""
        return self.node is not self.inner

    def annotations(self) -> Mapping[str, ast.Call]:
        """Return the annotations of the kernel's tensors by name, in order."""
        arguments = self.inner.args.args
        return {a.arg: a.annotation for a in arguments if isinstance(a.annotation, ast.Call)}

    def shape(self, annotation: ast.Call, numbers: Mapping[str, ast.expr]) -> tuple[str, ...]:
        """Return the dimensions of an annotation, as expressions of the function's parameters.

        Args:
            annotation: of a tensor.
            numbers: expressions behind the module's names.
        """
        shape = self._resolved(annotation.args[0], numbers) if annotation.args else None
        dims = shape.elts if isinstance(shape, (ast.Tuple, ast.List)) else []
        return tuple(ast.unparse(self._resolved(dim, numbers)) for dim in dims)

    @functools.cached_property
    def defaults(self) -> Mapping[str, str]:
        """The function's parameters in order, with the texts of defaults; empty without one."""
        if not self.has_sizes:
            return {}
        defaults = {name: ast.unparse(value) for name, value in default_pairs(self.node)}
        return {
            parameter.arg: defaults.get(parameter.arg, "") for parameter in parameters(self.node)
        }

    def dtype(self, annotation: ast.Call) -> str:
        """Return the dtype of an annotation; a parameter without a default has its usual value."""
        said = annotated_dtype(self.node, annotation)
        named = _names(annotation.args[1]) if len(annotation.args) > 1 else set()
        usual = (self.usual_value(name) for name in named if self.defaults.get(name) == "")
        return said or next(usual, "").strip('"')

    def constants(self, sizes: Collection[str]) -> tuple[dict[str, int], dict[str, str]]:
        """Return the parameters that may vary with their values, and what a call passes by name.

        Args:
            sizes: parameters that are none of these.
        """
        knobs: dict[str, int] = {}
        passed: dict[str, str] = {}
        for name, default in self.defaults.items():
            if name in sizes or (not default and self.is_tuned):
                continue
            usual = default or self.usual_value(name)
            number = tile_number(ast.parse(usual or "None", mode="eval").body)
            if number is not None:
                knobs[name] = number
                passed[name] = name
            elif not default:
                passed[name] = usual
        return knobs, passed

    def _resolved(self, node: ast.expr, numbers: Mapping[str, ast.expr]) -> ast.expr:
        values = {**numbers, **self._locals()}
        for parameter in self.node.args.args if self.has_sizes else ():
            values.pop(parameter.arg, None)

        class Substitution(ast.NodeTransformer):
            def visit_Name(self, name: ast.Name) -> ast.expr:
                return values.get(name.id, name)

        for _ in range(_DEEPEST):
            node = Substitution().visit(ast.parse(ast.unparse(node), mode="eval").body)
        return node

    def _locals(self) -> dict[str, ast.expr]:
        assigned = [part for part in self.node.body if isinstance(part, ast.Assign)]
        return {
            part.targets[0].id: part.value
            for part in assigned
            if len(part.targets) == 1 and isinstance(part.targets[0], ast.Name)
        }

    def written(self) -> set[str]:
        """Return the tensors that the kernel's text stores to."""
        names: set[str] = set()
        for part in ast.walk(self.inner):
            targets: list[ast.expr] = []
            if isinstance(part, (ast.Assign, ast.AugAssign)):
                targets = part.targets if isinstance(part, ast.Assign) else [part.target]
                targets = [target for target in targets if isinstance(target, ast.Subscript)]
            elif isinstance(part, ast.Call) and isinstance(part.func, ast.Attribute):
                place = 0 if part.func.attr.startswith("atomic_") else 1
                is_store = part.func.attr == "copy" or place == 0
                targets = part.args[place : place + 1] if is_store else []
            for target in targets:
                root = target.value if isinstance(target, ast.Subscript) else target
                names |= {root.id} if isinstance(root, ast.Name) else set()
        return names & self.annotations().keys()

    def usual_value(self, name: str) -> str:
        """Return a value for a parameter without a default, by its use; empty if none shows."""
        for call in ast.walk(self.inner):
            if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute):
                continue
            by_name = {k.arg: k.value for k in call.keywords}
            for key, value in (("threads", "128"), ("num_stages", "2")):
                if name in _names(by_name.get(key)):
                    return value
            if call.func.attr.startswith("alloc_"):
                if name in _names(call.args[0] if call.args else None):
                    return "64"
                if name in _names(call.args[1] if len(call.args) > 1 else by_name.get("dtype")):
                    is_sum = call.func.attr == "alloc_fragment"
                    return '"float32"' if is_sum else '"float16"'
        annotated = (a.args[1] for a in self.annotations().values() if len(a.args) > 1)
        if any(name in _names(dtype) for dtype in annotated):
            return '"float16"'
        tests = (part.test for part in ast.walk(self.node) if isinstance(part, (ast.If, ast.IfExp)))
        return "False" if any(name in _names(test) for test in tests) else ""


def annotated_dtype(node: Definition, annotation: ast.Call) -> str:
    """Return the dtype in ``T.Tensor((M, N), T.float16)``, or what a name there stands for."""
    value: ast.expr | None = annotation.args[1] if len(annotation.args) > 1 else None
    if isinstance(value, ast.Name):
        bound = [s.value for s in node.body if isinstance(s, ast.Assign) and _binds(s, value.id)]
        value = bound[0] if len(bound) == 1 else dict(default_pairs(node)).get(value.id)
    if isinstance(value, ast.Constant) and isinstance(value.value, str):
        return _TILE_DTYPES.get(value.value, value.value)
    name = value.attr if isinstance(value, ast.Attribute) else ""
    return _TILE_DTYPES.get(name, name)


def _binds(statement: ast.Assign, name: str) -> bool:
    return any(isinstance(target, ast.Name) and target.id == name for target in statement.targets)


def factories_of(body: list[ast.stmt], imported: Meanings) -> Iterator[Factory]:
    """Yield the factories among a module's top-level statements."""
    for node in body:
        if not isinstance(node, ast.FunctionDef):
            continue
        kernels = [part for part in ast.walk(node) if _is_kernel(part, imported)]
        inner = kernels[0] if len(kernels) == 1 else None
        if not isinstance(inner, ast.FunctionDef) or not inner.args.args:
            continue
        if not all(isinstance(a.annotation, ast.Call) for a in inner.args.args):
            continue
        named = {full for part in ast.walk(node) for full in _full_names(part, imported)}
        is_compiled = bool(named & {_JIT, _COMPILE}) and node is not inner
        yield Factory(
            node.name,
            node,
            inner,
            is_compiled,
            bool(named & {*_TUNERS}),
            _returned(node, len(inner.args.args)) if is_compiled else (),
        )


def _returned(node: ast.FunctionDef, count: int) -> tuple[int, ...]:
    keywords = (part for part in ast.walk(node) if isinstance(part, ast.keyword))
    for keyword in keywords:
        if keyword.arg == "out_idx":
            try:
                value = ast.literal_eval(keyword.value)
            except ValueError:
                continue
            listed = value if isinstance(value, (list, tuple)) else [value]
            return tuple(sorted(i % count for i in listed if isinstance(i, int)))
    return ()


def _is_kernel(node: ast.AST, imported: Meanings) -> bool:
    decorators = node.decorator_list if isinstance(node, ast.FunctionDef) else []
    return any("tilelang.language.prim_func" in _full_names(d, imported) for d in decorators)


def _full_names(node: ast.AST, imported: Meanings) -> set[str]:
    is_name = isinstance(node, (ast.Name, ast.Attribute))
    return set(dotted_full_names(node, imported)) if is_name else set()


def _names(node: ast.AST | None) -> set[str]:
    walked = ast.walk(node) if node is not None else ()
    return {part.id for part in walked if isinstance(part, ast.Name)}
