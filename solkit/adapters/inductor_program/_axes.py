"""Axes of a tensor as parts of the axes of another, through views.

A view only renames indices. So each axis of what it gives is a row of atoms: parts of the source's
axes, outermost first, or repetitions. Sizes of one have none.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.fx import Node

aten = torch.ops.aten


@dataclass(frozen=True)
class Atom:
    """Part of an axis.

    Attributes:
        axis: of the source; ``None`` for a repetition.
        size: how many indices it takes.
        step: by which the source's index grows with this one.
    """

    axis: int | None
    size: int
    step: int = 1

    def split(self, outer: int) -> tuple[Atom, Atom]:
        """Return two atoms for this one, the first of size `outer`."""
        inner = self.size // outer
        return Atom(self.axis, outer, self.step * inner), Atom(self.axis, inner, self.step)


Group = tuple[Atom, ...]
Dims = tuple[Group, ...]
"""The atoms of each axis."""


def whole_axes(sizes: Iterable[int]) -> Dims:
    """Return the axes of a tensor as its own."""
    return tuple((Atom(axis, size),) if size > 1 else () for axis, size in enumerate(sizes))


def regroup(atoms: Iterable[Atom], sizes: Iterable[int]) -> Dims | None:
    """Return the atoms as axes of these sizes; ``None`` where one would be cut unevenly."""
    remaining, dims = list(atoms), []
    for size in sizes:
        group: list[Atom] = []
        while size > 1 and remaining:
            atom = remaining.pop(0)
            if atom.size > size:
                if atom.size % size:
                    return None
                atom, inner = atom.split(size)
                remaining.insert(0, inner)
            if size % atom.size:
                return None
            group.append(atom)
            size //= atom.size
        if size != 1:
            return None
        dims.append(_merged(group))
    return None if remaining else tuple(dims)


def last_repeats(atoms: tuple[Atom, ...]) -> int:
    """Return along how many places a tensor repeats at the end of a group of axes."""
    return atoms[-1].size if atoms and atoms[-1].axis is None else 1


def is_repeated(atoms: Iterable[Atom]) -> bool:
    """Tell whether an axis only repeats."""
    return all(atom.axis is None for atom in atoms)


def _merged(atoms: Iterable[Atom]) -> Group:
    """Return atoms with neighbours that are one joined."""
    merged: list[Atom] = []
    for atom in atoms:
        if merged and _continues(merged[-1], atom):
            merged[-1] = Atom(atom.axis, merged[-1].size * atom.size, atom.step)
        else:
            merged.append(atom)
    return tuple(merged)


def _continues(outer: Atom, inner: Atom) -> bool:
    """Tell whether two atoms, one after the other, are one."""
    is_next = inner.axis is None or outer.step == inner.step * inner.size
    return outer.axis == inner.axis and is_next


# ------------------------------------------------------------------------------------- views


def is_view(node: object) -> bool:
    """Tell whether a node only renames indices, or copies."""
    return isinstance(node, Node) and node.target in _FOLLOWED


def follow_view(node: Node, dims: Dims) -> Dims | None:
    """Return the axes of a view of what has these axes; ``None`` if they are no atoms of them."""
    return _FOLLOWED[node.target](node, dims)


def _regrouped(node: Node, dims: Dims) -> Dims | None:
    return regroup((atom for group in dims for atom in group), node.meta["val"].shape)


def _permuted(node: Node, dims: Dims) -> Dims:
    order: Any = node.args[1]
    return tuple(dims[axis] for axis in order)


def _transposed(node: Node, dims: Dims) -> Dims:
    axes: Any = node.args[1:] or (0, len(dims) - 1)
    first, second = axes
    swapped = list(dims)
    swapped[first], swapped[second] = dims[second], dims[first]
    return tuple(swapped)


def _expanded(node: Node, dims: Dims) -> Dims:
    sizes = node.meta["val"].shape
    padded = ((),) * (len(sizes) - len(dims)) + dims
    pairs = zip(padded, sizes, strict=True)
    return tuple(g if g or size == 1 else (Atom(None, size),) for g, size in pairs)


def _unchanged(_: Node, dims: Dims) -> Dims:
    return dims


_FOLLOWED: dict[Any, Callable[[Node, Dims], Dims | None]] = {
    **dict.fromkeys((aten.view.default, aten._unsafe_view.default), _regrouped),
    **dict.fromkeys((aten.reshape.default, aten.unsqueeze.default), _regrouped),
    **dict.fromkeys((aten.squeeze.default, aten.squeeze.dim, aten.squeeze.dims), _regrouped),
    aten.permute.default: _permuted,
    **dict.fromkeys((aten.transpose.int, aten.t.default), _transposed),
    aten.expand.default: _expanded,
    **dict.fromkeys((aten.clone.default, aten.alias.default, aten.detach.default), _unchanged),
}


# --------------------------------------------------------------------------------- new views


def arrange_axes(emit: Callable[..., Node], source: Node, groups: Sequence[Group]) -> Node:
    """Return a tensor with an axis for each group, a view where its strides allow that."""
    atoms = [atom for group in groups for atom in group]
    parts = [atom for atom in atoms if atom.axis is not None]
    in_order = sorted(parts, key=lambda atom: (atom.axis, -atom.step))
    node = emit(aten.view.default, source, [atom.size for atom in in_order])
    node = emit(aten.permute.default, node, [in_order.index(atom) for atom in parts])
    for place, atom in enumerate(atoms):
        if atom.axis is None:
            node = emit(aten.unsqueeze.default, node, place)
    if len(parts) < len(atoms):
        node = emit(aten.expand.default, node, [atom.size for atom in atoms])
    sizes = [math.prod(atom.size for atom in group) for group in groups]
    try:
        return emit(aten.view.default, node, sizes)
    except (RuntimeError, ValueError):  # its strides do not allow that
        copy = emit(aten.clone.default, node, memory_format=torch.contiguous_format)
        return emit(aten.view.default, copy, sizes)
