"""Tensors of a launcher: their types and numbers of axes, as far as the launcher's text says.

An expression is followed through names, views and allocations to where its type comes from: a name
of a type, or another tensor, such as a parameter. What is not known of a tensor is left open, so
that a rewrite can ask for less, or put a condition.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import libcst as cst

from solkit.tuner.proposers.rewriter._edit import has_assignment
from solkit.tuner.proposers.rewriter._nodes import (
    argument_of,
    assigned_names,
    called_name,
    nodes_within,
    render_code,
    single_assignment,
    statements_of,
    walk_statements,
)
from solkit.tuner.proposers.rewriter._parse import launcher_definition

DEFAULT_TYPE = "torch.get_default_dtype()"
"""Type of what is allocated without one."""
_SAME_RANK = frozenset("contiguous clone detach t transpose permute".split())
SAME_TYPE = _SAME_RANK | frozenset(
    "view reshape flatten squeeze unsqueeze expand narrow select".split()
)
"""Methods whose result has the type of their tensor."""
_CASTS = frozenset("to float half bfloat16 cuda".split())
"""Methods whose result may have another type, and as many axes."""
_SAME_RANK_ATTRIBUTES = ("T", "mT", "data", "grad")
_SIZED = tuple(f"torch.{name}" for name in ("empty", "zeros", "ones"))
_LIKE = tuple(f"{name}_like" for name in _SIZED)


@dataclass(frozen=True)
class LauncherTensor:
    """A tensor of a launcher.

    Attributes:
        origin: the expression that its type comes from; ``None`` if `dtype` names the type.
        dtype: the type that an allocation names, as code; empty if it is the origin's.
        rank: how many axes it has; ``None`` if the text does not say.
        keeps_rank: whether it has as many axes as its origin.
    """

    origin: cst.BaseExpression | None
    dtype: str = ""
    rank: int | None = None
    keeps_rank: bool = True


def launcher_tensor(
    node: cst.BaseExpression,
    launcher: cst.FunctionDef,
    own: Mapping[str, LauncherTensor] | None = None,
) -> LauncherTensor:
    """Return what a launcher's text says of a tensor.

    Args:
        node: an expression of the launcher.
        launcher: the function.
        own: tensors by names that the text does not have yet.
    """
    return _Walk(launcher, own or {}).tensor(node)


@dataclass(frozen=True)
class _Walk:
    """Follows a launcher's expressions.

    Attributes:
        launcher: the function.
        own: known tensors by name.
        passed: names that were followed: one that follows from itself is its own origin.
    """

    launcher: cst.FunctionDef
    own: Mapping[str, LauncherTensor]
    passed: frozenset[str] = frozenset()

    def tensor(self, node: cst.BaseExpression) -> LauncherTensor:
        if isinstance(node, cst.Name):
            return self._of_name(node)
        if isinstance(node, cst.Subscript):
            return replace(self.tensor(node.value), rank=None, keeps_rank=False)
        if isinstance(node, cst.Attribute) and node.attr.value in _SAME_RANK_ATTRIBUTES:
            return self.tensor(node.value)
        if not isinstance(node, cst.Call):
            return LauncherTensor(node)
        if called_name(node) in _SIZED:
            return replace(self._typed(node), rank=_length_of(node), keeps_rank=False)
        if called_name(node) in _LIKE and node.args:
            like = self.tensor(node.args[0].value)
            typed = like if argument_of(node, 99, "dtype") is None else self._typed(node)
            return replace(typed, rank=like.rank, keeps_rank=typed is like and like.keeps_rank)
        return self._of_method(node)

    def _of_name(self, name: cst.Name) -> LauncherTensor:
        if name.value in self.own:
            return self.own[name.value]
        rank = _unpacked_rank(name.value, self.launcher)
        value = launcher_definition(name.value, self.launcher)
        is_last = value is None or name.value in self.passed
        if is_last or value is None or has_assignment(self.launcher, name.value) is None:
            return LauncherTensor(name, rank=rank)
        inner = replace(self, passed=self.passed | {name.value}).tensor(value)
        return inner if rank is None else replace(inner, rank=rank)

    def _typed(self, call: cst.Call) -> LauncherTensor:
        """Return an allocation as far as its type goes."""
        dtype = argument_of(call, 99, "dtype")
        if isinstance(dtype, cst.Name):
            dtype = launcher_definition(dtype.value, self.launcher) or dtype
        if isinstance(dtype, cst.Attribute) and dtype.attr.value == "dtype":
            return replace(self.tensor(dtype.value), keeps_rank=False)
        return LauncherTensor(None, DEFAULT_TYPE if dtype is None else render_code(dtype))

    def _of_method(self, call: cst.Call) -> LauncherTensor:
        method = call.func.attr.value if isinstance(call.func, cst.Attribute) else ""
        if not isinstance(call.func, cst.Attribute) or method not in SAME_TYPE | _CASTS:
            return LauncherTensor(call)
        inner = self.tensor(call.func.value)
        is_cast = method in _CASTS or any("torch" in render_code(arg) for arg in call.args)
        if is_cast:
            return LauncherTensor(call, rank=inner.rank if method in _CASTS else None)
        if method in _SAME_RANK:
            return inner
        sizes = call.args if method in ("view", "reshape") else ()
        is_listed = len(sizes) > 1 and not any(arg.star or arg.keyword for arg in sizes)
        return replace(inner, rank=len(sizes) if is_listed else None, keeps_rank=False)


def _length_of(call: cst.Call) -> int | None:
    """Return how many sizes an allocation gets."""
    if any(arg.star for arg in call.args):
        return None
    sizes = argument_of(call, 0, "size")
    if isinstance(sizes, (cst.Tuple, cst.List)):
        return (len(sizes.elements) or None) if _is_plain(sizes.elements) else None
    listed = [arg for arg in call.args if arg.keyword is None]
    return len(listed) if len(listed) > 1 else None  # one may be a tuple


def _unpacked_rank(name: str, launcher: cst.FunctionDef) -> int | None:
    """Return into how many names a tensor's sizes are unpacked, as by ``B, C = x.shape``."""
    for node in nodes_within(launcher) if _has_one_rank(name, launcher) else ():
        sizes = (f"{name}.shape", f"{name}.size()")
        if isinstance(node, cst.Assign) and render_code(node.value) in sizes:
            target = node.targets[0].target
            if isinstance(target, cst.Tuple) and _is_plain(target.elements):
                return len(target.elements)
    return None


def _is_plain(elements: Sequence[cst.BaseElement]) -> bool:
    return all(isinstance(element, cst.Element) for element in elements)


def _has_one_rank(tensor: str, launcher: cst.FunctionDef) -> bool:
    """Tell whether a name of a launcher stands for tensors of one number of axes alone."""
    parts = [launcher.params.posonly_params, launcher.params.params, launcher.params.kwonly_params]
    values = [
        binding.value
        for s in walk_statements(statements_of(launcher))
        if (binding := single_assignment(s)) and binding.target == tensor
    ]
    keeping = {f"{tensor}.{name}" for name in _CASTS | {"contiguous", "clone", "detach"}}
    starts = sum(param.name.value == tensor for part in parts for param in part)
    kept = sum(called_name(value) in keeping for value in values)
    return starts + assigned_names(launcher).count(tensor) - kept <= 1
