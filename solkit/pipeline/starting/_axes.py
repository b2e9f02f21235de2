"""Axes of a kernel's pointers, from what is added to each in its text.

``x_ptr + row * stride + cols`` goes along two axes. A mask ``cols < N`` says how long an axis is.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator
from dataclasses import dataclass

_SAME = ("to", "cast", "multiple_of", "max_contiguous")  # give their first argument's value
_SHAPED = ("make_block_ptr", "make_tensor_descriptor")
_DEEPEST = 8  # locals within locals


@dataclass(frozen=True)
class Axis:
    """A dimension that addresses go along.

    Attributes:
        indices: the texts of what is multiplied by one stride.
        size: the parameter that a mask or a modulus compares these with; empty if none.
    """

    indices: frozenset[str]
    size: str = ""


class Addresses:
    """Axes of the pointers of one kernel.

    Args:
        node: the kernel.
        names: its parameters.
    """

    def __init__(self, node: ast.FunctionDef, names: Collection[str]) -> None:
        self._names = names
        self._values = _single_values(node)
        ranges = [part for part in ast.walk(node) if _called_name(part) == "arange"]
        self._blocks = {name for part in ranges for name in _names_in(part) if name in names}
        self._axes: dict[str, dict[str, set[str]]] = {}
        self._sizes: dict[str, str] = {}
        for part in ast.walk(node):
            if isinstance(part, ast.Compare) and isinstance(part.ops[0], ast.Lt):
                self._note_size(part.left, part.comparators[0])

    def axes(self, name: str) -> tuple[Axis, ...]:
        """Return a pointer's axes in order; the one without a stride comes last."""
        by_stride = self._axes.get(name, {})
        ordered = sorted(by_stride.items(), key=lambda item: item[0] == "")
        return tuple(
            Axis(frozenset(texts), next((self._sizes[t] for t in texts if t in self._sizes), ""))
            for _, texts in ordered
        )

    def add(self, name: str, address: ast.expr, roots: Collection[str]) -> None:
        """Note an address of a pointer.

        Args:
            name: the pointer.
            address: what it becomes.
            roots: locals that are addresses themselves.
        """
        strides = self._axes.setdefault(name, {})
        if _called_name(address) in _SHAPED and isinstance(address, ast.Call):
            for base in address.args[:1]:
                self.add(name, base, roots)
            for size in self._shape_of(address):
                strides.setdefault(f"shape {size}", set()).add(f"below {size}")
                self._sizes[f"below {size}"] = size
            return
        for term in self._terms(address):
            factors = list(self._factors(term))
            names = {factor.id for factor in factors if isinstance(factor, ast.Name)}
            texts = [ast.unparse(factor) for factor in factors if not self._is_stride(factor)]
            if names & {name, *roots} or not texts:
                continue
            strided = sorted(names & set(self._names) - self._blocks)
            strides.setdefault(" ".join(strided), set()).add(" * ".join(texts))

    def _shape_of(self, call: ast.Call) -> list[str]:
        named = [keyword.value for keyword in call.keywords if keyword.arg == "shape"]
        shape = next(iter([*named, *call.args[1:2]]), None)
        dims = shape.elts if isinstance(shape, (ast.Tuple, ast.List)) else []
        return [dim.id for dim in dims if isinstance(dim, ast.Name) and dim.id in self._names]

    def _is_stride(self, factor: ast.expr) -> bool:
        is_parameter = isinstance(factor, ast.Name) and factor.id in self._names
        return is_parameter or isinstance(factor, ast.Constant)

    def _terms(self, node: ast.expr, depth: int = 0) -> Iterator[ast.expr]:
        """Yield what a sum adds, locals that are sums or products of strides included."""
        node = self._plain(node, depth)
        if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Add, ast.Sub)):
            yield from self._terms(node.left, depth + 1)
            yield from self._terms(node.right, depth + 1)
        else:
            yield node

    def _factors(self, node: ast.expr, depth: int = 0) -> Iterator[ast.expr]:
        node = self._plain(node, depth)
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
            yield from self._factors(node.left, depth + 1)
            yield from self._factors(node.right, depth + 1)
        else:
            self._note_modulus(node)
            yield node

    def _plain(self, node: ast.expr, depth: int) -> ast.expr:
        """Strip ``[:, None]`` and casts; a local that no range is part of becomes its value."""
        while True:
            if isinstance(node, ast.Subscript):
                node = node.value
            elif isinstance(node, ast.Call) and _called_name(node) in _SAME:
                if isinstance(node.func, ast.Attribute) and node.func.attr == "to":
                    node = node.func.value
                elif node.args:
                    node = node.args[0]
                else:
                    return node
            elif isinstance(node, ast.Name) and node.id in self._values and depth < _DEEPEST:
                if self._has_range(self._values[node.id], 0):
                    return node
                node, depth = self._values[node.id], depth + 1
            else:
                return node

    def _has_range(self, node: ast.expr, depth: int) -> bool:
        if depth > _DEEPEST or any(_called_name(part) == "arange" for part in ast.walk(node)):
            return True
        inner = [self._values[name] for name in _names_in(node) if name in self._values]
        return any(self._has_range(value, depth + 1) for value in inner)

    def _note_size(self, index: ast.expr, bound: ast.expr) -> None:
        if isinstance(bound, ast.BinOp) and isinstance(bound.op, ast.Sub):  # offs < K - k * BLOCK
            bound = bound.left
        if isinstance(bound, ast.Name) and bound.id in self._names:
            self._sizes.setdefault(ast.unparse(self._plain(index, 0)), bound.id)

    def _note_modulus(self, node: ast.expr) -> None:
        value = self._values.get(node.id, node) if isinstance(node, ast.Name) else node
        is_modulus = isinstance(value, ast.BinOp) and isinstance(value.op, ast.Mod)
        size = value.right if is_modulus and isinstance(value, ast.BinOp) else None
        if isinstance(size, ast.Name) and size.id in self._names:
            self._sizes.setdefault(ast.unparse(node), size.id)


def _called_name(node: ast.AST) -> str:
    if not isinstance(node, ast.Call):
        return ""
    return node.func.attr if isinstance(node.func, ast.Attribute) else ast.unparse(node.func)


def _names_in(node: ast.AST) -> Iterator[str]:
    return (part.id for part in ast.walk(node) if isinstance(part, ast.Name))


def _single_values(node: ast.FunctionDef) -> dict[str, ast.expr]:
    """Return the values of locals that one plain assignment binds, and nothing else."""
    bound: list[str] = [
        part.id
        for part in ast.walk(node)
        if isinstance(part, ast.Name) and not isinstance(part.ctx, ast.Load)
    ]
    assigned = {
        part.targets[0].id: part.value
        for part in ast.walk(node)
        if isinstance(part, ast.Assign) and isinstance(part.targets[0], ast.Name)
    }
    return {name: value for name, value in assigned.items() if bound.count(name) == 1}
