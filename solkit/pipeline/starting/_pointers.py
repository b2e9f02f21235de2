"""Pointers of a kernel in Triton, Gluon or cuTile: what is read, written, an index, and its axes.

From the syntax tree alone. A pointer is followed through sums, views and the kernel's own helpers.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from solkit.core.syntax import Meanings, dotted_full_names, leading_name
from solkit.pipeline.starting._axes import Addresses, Axis

_LANGUAGES = ("triton.language.", "triton.experimental.gluon.language.", "cuda.tile.")
_KEPT = ("make_block_ptr", "advance", "cast", "multiple_of", "max_contiguous", "broadcast_to")
_MAKERS = (*_KEPT, "make_tensor_descriptor", "max_constancy", "to")
_READS, _WRITES = ("load", "gather"), ("store", "scatter")


@dataclass(frozen=True)
class Pointers:
    """Parameters through which a kernel accesses memory.

    Attributes:
        read: parameters that it loads through.
        written: parameters that it stores or adds through.
        indices: parameters whose values become part of an address.
        axes: the dimensions of what each is added to, the one without a stride last.
    """

    read: frozenset[str] = frozenset()
    written: frozenset[str] = frozenset()
    indices: frozenset[str] = frozenset()
    axes: Mapping[str, tuple[Axis, ...]] = field(default_factory=dict)

    @property
    def every(self) -> frozenset[str]:
        """All pointers."""
        return self.read | self.written


class _Reader:
    def __init__(
        self,
        node: ast.FunctionDef,
        helpers: Mapping[str, ast.FunctionDef],
        imported: Meanings,
        within: tuple[str, ...],
    ) -> None:
        arguments = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
        self._names = {argument.arg for argument in arguments}
        self._scalars = set(_scalar_parameters(node))
        self.addresses = Addresses(node, self._names)
        self._helpers, self._imported, self._within = helpers, imported, (*within, node.name)
        self._roots: dict[str, str] = {}
        self._loaded: dict[str, set[str]] = {}
        self.read: set[str] = set()
        self.written: set[str] = set()
        self.indices: set[str] = set()
        ordered = sorted(
            (part for part in ast.walk(node) if isinstance(part, (ast.stmt, ast.Call))),
            key=lambda part: (part.lineno, part.col_offset),
        )
        for _ in range(2):  # what a loop assigns holds from its start
            for step in ordered:
                self._read_node(step)

    def _read_node(self, node: ast.stmt | ast.Call) -> None:
        if isinstance(node, ast.Call):
            self._read_call(node)
        elif isinstance(node, ast.Assign):
            for target in node.targets:
                self._bind_pointer(target, node.value)
        elif isinstance(node, ast.AnnAssign) and node.value is not None:
            self._bind_pointer(node.target, node.value)
        elif isinstance(node, ast.AugAssign):
            self._mark_local(node.target, node.value)
            if root := self._root_parameter(node.target):
                self.addresses.add(root, node.value, self._roots)

    def _bind_pointer(self, target: ast.expr, value: ast.expr) -> None:
        if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
            for target_part, value_part in zip(target.elts, value.elts):
                self._bind_pointer(target_part, value_part)
            return
        self._mark_local(target, value)
        pointer = self._root_parameter(value)
        if isinstance(target, ast.Name) and pointer:
            self._roots[target.id] = pointer
            self._note_indices(value)
            self.addresses.add(pointer, value, self._roots)

    def _mark_local(self, target: ast.expr, value: ast.expr) -> None:
        """Note from which pointers a local's value was loaded."""
        pointers = self._source_pointers(value)
        for part in ast.walk(target):
            if isinstance(part, ast.Name) and pointers:
                self._loaded.setdefault(part.id, set()).update(pointers)

    def _source_pointers(self, value: ast.expr) -> set[str]:
        pointers: set[str] = set()
        for part in ast.walk(value):
            if isinstance(part, ast.Name):
                pointers |= self._loaded.get(part.id, set())
            elif isinstance(part, ast.Call) and self._language_function(part) in _READS:
                pointers |= {pointer} if (pointer := self._accessed_pointer(part)) else set()
        return pointers

    def _root_parameter(self, node: ast.expr | None) -> str:
        """Return the parameter that an address starts from; empty if none."""
        if isinstance(node, ast.Name):
            own = node.id in self._names and node.id not in self._scalars
            return self._roots.get(node.id, node.id if own else "")
        if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Add, ast.Sub)):
            return self._root_parameter(node.left) or self._root_parameter(node.right)
        if isinstance(node, ast.IfExp):
            return self._root_parameter(node.body) or self._root_parameter(node.orelse)
        if isinstance(node, ast.Subscript):
            return self._root_parameter(node.value)
        if isinstance(node, ast.Call):
            called = (
                node.func.attr if isinstance(node.func, ast.Attribute) else leading_name(node.func)
            )
            if called in _MAKERS:
                return self._accessed_pointer(node)
        return ""

    def _language_function(self, call: ast.Call) -> str:
        """Name the function of a language that a call names; for a descriptor its method."""
        for full in dotted_full_names(call.func, self._imported):
            for language in _LANGUAGES:
                if full.startswith(language):
                    return full.removeprefix(language)
        is_method = isinstance(call.func, ast.Attribute) and self._root_parameter(call.func.value)
        return call.func.attr if is_method and isinstance(call.func, ast.Attribute) else ""

    def _accessed_pointer(self, call: ast.Call) -> str:
        named = {keyword.arg: keyword.value for keyword in call.keywords}
        if isinstance(call.func, ast.Attribute) and (root := self._root_parameter(call.func.value)):
            return root
        first = call.args[0] if call.args else named.get("pointer", named.get("base"))
        return self._root_parameter(first)

    def _read_call(self, call: ast.Call) -> None:
        name = self._language_function(call)
        if name in _READS and (pointer := self._accessed_pointer(call)):
            self.read.add(pointer)
            self._note_address(pointer, call)
        elif (name in _WRITES or name.startswith("atomic_")) and (
            pointer := self._accessed_pointer(call)
        ):
            self.written.add(pointer)
            self._note_address(pointer, call)
        elif isinstance(call.func, ast.Name) and call.func.id in self._helpers:
            self._see_helper(call, self._helpers[call.func.id])

    def _note_address(self, pointer: str, call: ast.Call) -> None:
        self._note_indices(*call.args[:1])
        for address in call.args[:1]:
            self.addresses.add(pointer, address, self._roots)

    def _note_indices(self, *addresses: ast.expr) -> None:
        for address in addresses:
            mine = self._root_parameter(address)
            self.indices |= {name for name in self._source_pointers(address) if name != mine}

    def _see_helper(self, call: ast.Call, helper: ast.FunctionDef) -> None:
        if helper.name in self._within:
            return
        inner = _Reader(helper, self._helpers, self._imported, self._within)
        names = [parameter.arg for parameter in (*helper.args.posonlyargs, *helper.args.args)]
        handed = dict(zip(names, call.args))
        handed |= {keyword.arg: keyword.value for keyword in call.keywords if keyword.arg}
        pairs = ((self.read, inner.read), (self.written, inner.written))
        for mine, theirs in (*pairs, (self.indices, inner.indices)):
            mine |= {
                root for n in theirs if n in handed and (root := self._root_parameter(handed[n]))
            }


def _scalar_parameters(node: ast.FunctionDef) -> Iterator[str]:
    """Yield parameters that are multiplied, divided or compared: no pointer is."""
    factors = (ast.Mult, ast.Div, ast.FloorDiv, ast.Mod)
    for part in ast.walk(node):
        parts: list[ast.expr] = []
        if isinstance(part, ast.BinOp) and isinstance(part.op, factors):
            parts = [part.left, part.right]
        elif isinstance(part, ast.Compare) and not isinstance(part.ops[0], (ast.Is, ast.IsNot)):
            parts = [part.left, *part.comparators]
        yield from (part.id for part in parts if isinstance(part, ast.Name))


def pointers_of(
    node: ast.FunctionDef, helpers: Mapping[str, ast.FunctionDef], imported: Meanings
) -> Pointers:
    """Return what a kernel accesses.

    Args:
        node: its function.
        helpers: functions of the file that kernels may call, by name.
        imported: the full names behind the file's names.
    """
    seen = _Reader(node, helpers, imported, ())
    axes = {name: seen.addresses.axes(name) for name in seen.read | seen.written}
    return Pointers(frozenset(seen.read), frozenset(seen.written), frozenset(seen.indices), axes)
