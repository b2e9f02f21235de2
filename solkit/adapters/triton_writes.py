"""Parameters that a Triton kernel may write to, and those that it loads from, by its Python source.

What a kernel only reads keeps its contents: index tensors that several launches share stay known.
"""

from __future__ import annotations

import ast
import builtins
import functools
from collections.abc import Iterator, Mapping
from types import ModuleType
from typing import Any

from triton.runtime.jit import JITFunction

from solkit.adapters.foreign_kernels import ForeignKernel

_STORES = ("store", "atomic_", "reduce", "scatter")
"""Prefixes of the names of functions and methods that write to memory."""
_STORES_OF_GLUON = ("async_copy_shared_to_global", "async_scatter", "warp_specialize")
"""They write through their first argument; partitions of warps may write through all of theirs."""
_LOADS = ("load", "gather")
_OPAQUE = "inline_asm"
_DEEPEST = 8


def may_write(function: Any, parameter: str) -> bool:
    """Tell whether a kernel may write through a parameter; True if that is not understood."""
    if isinstance(function, ForeignKernel):
        return function.may_write(parameter)
    written = _written_parameters(function) if isinstance(function, JITFunction) else None
    return written is None or parameter in written


def loads_from(function: Any, parameter: str) -> bool:
    """Tell whether a kernel loads through a parameter; False if that is not understood."""
    return isinstance(function, JITFunction) and parameter in _loaded_parameters(function)


@functools.lru_cache(maxsize=256)
def _loaded_parameters(function: JITFunction[Any], depth: int = 0) -> frozenset[str]:
    try:
        tree = function.parse()
        scope = dict(function.fn.__globals__)
    except (AttributeError, OSError, SyntaxError, TypeError, ValueError):
        return frozenset()
    return _Reader(function.arg_names, scope, depth).loaded_parameters(tree)


@functools.lru_cache(maxsize=256)
def _written_parameters(function: JITFunction[Any], depth: int = 0) -> frozenset[str] | None:
    try:
        tree = function.parse()
        scope = dict(function.fn.__globals__)
    except (AttributeError, OSError, SyntaxError, TypeError, ValueError):
        return None
    return _Reader(function.arg_names, scope, depth).written_parameters(tree)


class _Reader:
    """Reads the source of one kernel.

    Args:
        parameters: of the kernel.
        scope: its module's names.
        depth: calls around it.
    """

    def __init__(self, parameters: list[str], scope: Mapping[str, Any], depth: int) -> None:
        self.roots: dict[str, set[str]] = {name: {name} for name in parameters}
        self.scope = scope
        self.depth = depth

    def written_parameters(self, tree: ast.AST) -> frozenset[str] | None:
        """Return the parameters that it may write to; ``None`` if it is not understood."""
        self._follow_assignments(tree)
        roots: set[str] = set()
        for call in (node for node in ast.walk(tree) if isinstance(node, ast.Call)):
            places = self._written_arguments(call)
            if places is None:
                return None
            roots.update(root for place in places for root in self._pointer_parameters(place))
        return frozenset(roots)

    def loaded_parameters(self, tree: ast.AST) -> frozenset[str]:
        """Return the parameters that it loads from, as far as it is understood."""
        self._follow_assignments(tree)
        calls = (node for node in ast.walk(tree) if isinstance(node, ast.Call))
        places = (place for call in calls for place in self._loaded_arguments(call))
        return frozenset(root for place in places for root in self._pointer_parameters(place))

    def _loaded_arguments(self, call: ast.Call) -> list[ast.AST]:
        """Return the arguments through which a call loads."""
        callee = self._resolve_name(call.func)
        if isinstance(callee, JITFunction) and not _is_tritons(callee):
            if self.depth >= _DEEPEST:
                return []
            inner = _loaded_parameters(callee, self.depth + 1)
            return [place for name, place in _named_arguments(call, callee) if name in inner]
        if not _called_name(call).startswith(_LOADS):
            return []
        return _accessed_argument(call, callee)

    def _follow_assignments(self, tree: ast.AST) -> None:
        """Learn which names may point where parameters do, until nothing is new."""
        before = -1
        while before != (now := sum(map(len, self.roots.values()))):
            before = now
            for node in ast.walk(tree):
                self._note_assignment(node)

    def _note_assignment(self, node: ast.AST) -> None:
        if isinstance(node, ast.Assign):
            targets, value = node.targets, node.value
        elif isinstance(node, ast.AugAssign | ast.AnnAssign) and node.value is not None:
            targets, value = [node.target], node.value
        else:
            return
        roots = self._pointer_parameters(value)
        for name in (n for target in targets for n in ast.walk(target) if isinstance(n, ast.Name)):
            self.roots.setdefault(name.id, set()).update(roots)

    def _pointer_parameters(self, node: ast.AST) -> set[str]:
        """Return the parameters that a value may be a pointer to; what is loaded is none."""
        if isinstance(node, ast.Name):
            return self.roots.get(node.id, set())
        if isinstance(node, ast.Call) and _called_name(node).startswith(_LOADS):
            return set()
        return {
            root for child in ast.iter_child_nodes(node) for root in self._pointer_parameters(child)
        }

    def _written_arguments(self, call: ast.Call) -> list[ast.AST] | None:
        """Return the arguments through which a call may write."""
        name = _called_name(call)
        if _OPAQUE in name:
            return None
        callee = self._resolve_name(call.func)
        if isinstance(callee, JITFunction) and not _is_tritons(callee):
            return self._passed_arguments(call, callee)
        if name.startswith((*_STORES, *_STORES_OF_GLUON)):
            return _accessed_argument(call, callee)
        is_method = callee is None and isinstance(call.func, ast.Attribute)  # a tensor's method
        if is_method or _is_tritons(callee) or getattr(builtins, name, None) is callee:
            return []
        return [*call.args, *(keyword.value for keyword in call.keywords)]

    def _passed_arguments(self, call: ast.Call, callee: JITFunction[Any]) -> list[ast.AST] | None:
        """Return the arguments of a call of a kernel's own function that this may write to."""
        inner = _written_parameters(callee, self.depth + 1) if self.depth < _DEEPEST else None
        if inner is None or any(isinstance(arg, ast.Starred) for arg in call.args):
            return [*call.args, *(keyword.value for keyword in call.keywords)]
        return [place for name, place in _named_arguments(call, callee) if name in inner]

    def _resolve_name(self, node: ast.AST) -> Any:
        """Return a name of the module, or an attribute of one; ``None`` if it is neither."""
        if isinstance(node, ast.Name):
            return self.scope.get(node.id, getattr(builtins, node.id, None))
        if isinstance(node, ast.Attribute):
            base = self._resolve_name(node.value)
            return getattr(base, node.attr, None) if isinstance(base, ModuleType) else None
        return None


def _named_arguments(call: ast.Call, callee: JITFunction[Any]) -> Iterator[tuple[str, ast.AST]]:
    """Yield the arguments of a call of a kernel's own function, by its parameters."""
    yield from zip(callee.arg_names, call.args)
    yield from ((keyword.arg, keyword.value) for keyword in call.keywords if keyword.arg)


def _accessed_argument(call: ast.Call, callee: Any) -> list[ast.AST]:
    """Return the pointer, or the descriptor, of a load or store."""
    if isinstance(call.func, ast.Attribute) and callee is None:  # of a descriptor
        return [call.func.value]
    return [*call.args[:1], *(k.value for k in call.keywords if k.arg == "pointer")]


def _called_name(call: ast.Call) -> str:
    if isinstance(call.func, ast.Attribute):
        return call.func.attr
    return call.func.id if isinstance(call.func, ast.Name) else ""


def _is_tritons(callee: Any) -> bool:
    return str(getattr(callee, "__module__", "")).startswith("triton.")
