"""Operands and softmax of attention that is written out in a graph.

What each operator computes decides, not the text: `_axes` follows axes through views.
"""

from __future__ import annotations

import operator
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch.fx import Node

from solkit.adapters.inductor_program._axes import (
    Dims,
    follow_view,
    is_repeated,
    is_view,
    whole_axes,
)
from solkit.adapters.inductor_program._narrow_products import CONVERSIONS, NARROW

aten = torch.ops.aten
FLOATS = (*NARROW, torch.float32)
MASKED = -1e4
"""A score so low that its exponential is 0 next to any other."""


# ------------------------------------------------------------------------------- operands


@dataclass(frozen=True)
class Operand:
    """A tensor as a product or a mask takes it.

    Attributes:
        source: what it is a view of, before it was widened or scaled.
        dims: its axes.
        factor: number by which it was multiplied.
    """

    source: Node
    dims: Dims
    factor: float = 1.0

    def ordered(self, *axes: int) -> Operand:
        """Return it with the axes in another order, behind one of the batch."""
        dims = self.dims if len(self.dims) == 3 else ((), *self.dims)
        return replace(self, dims=tuple(dims[axis] for axis in axes))


def read_operand(node: Node) -> Operand:
    """Return what a tensor was made of by views, widening and numbers."""
    if is_view(node):
        inner = read_operand(first_operand(node))
        dims = follow_view(node, inner.dims)
        if dims is not None:
            return replace(inner, dims=dims)
    elif node.target in CONVERSIONS and _is_widening(node):
        return read_operand(first_operand(node))
    elif (scaled := scaled_tensor(node)) is not None:
        inner = read_operand(scaled[0])
        if node.meta["val"].dtype in FLOATS and inner.source.meta["val"].dtype in FLOATS:
            return replace(inner, factor=inner.factor * scaled[1])
    return Operand(node, whole_axes(node.meta["val"].shape))


def first_operand(node: Any) -> Node:
    """Return the first argument of an operator on tensors."""
    source: Node = node.args[0]
    return source


def _is_widening(node: Node) -> bool:
    before, after = first_operand(node).meta["val"].dtype, node.meta["val"].dtype
    both = before in FLOATS and after in FLOATS
    return both and (before is after or before.itemsize < after.itemsize)


def scaled_tensor(node: Node) -> tuple[Node, float] | None:
    """Return the tensor that a node multiplies or divides by a number, and the factor."""
    if node.target not in (aten.mul.Tensor, aten.mul.Scalar, aten.div.Tensor, aten.div.Scalar):
        return None
    is_quotient = node.target in (aten.div.Tensor, aten.div.Scalar)
    for place in range(1 if is_quotient else 2):
        tensor, number = node.args[place], number_in(node.args[1 - place])
        if isinstance(tensor, Node) and number is not None and _is_alike(tensor, node):
            if is_quotient and not number:
                return None
            return tensor, 1 / number if is_quotient else number
    return None


def number_in(value: Any) -> float | None:
    """Return the number that a tensor is full of, or an argument is."""
    while is_view(value) or _is_to_float(value):
        value = value.args[0]
    if isinstance(value, Node):
        places = {aten.scalar_tensor.default: 0, aten.full.default: 1}
        value = value.args[places[value.target]] if value.target in places else None
    return float(value) if isinstance(value, (int, float)) else None


def _is_to_float(value: Any) -> bool:
    is_conversion = isinstance(value, Node) and value.target in CONVERSIONS
    return is_conversion and value.meta["val"].dtype in FLOATS


def _is_alike(one: Node, other: Node) -> bool:
    return bool(one.meta["val"].shape == other.meta["val"].shape)


# --------------------------------------------------------------------------------- softmax


def is_float_conversion(node: Node) -> bool:
    return node.meta["val"].dtype in FLOATS and first_operand(node).meta["val"].dtype in FLOATS


def read_softmax(node: Node) -> tuple[Node, int, tuple[Node, ...]] | None:
    """Return the scores and the axis of a softmax, with the nodes that compute it."""
    if node.target is aten._softmax.default:
        axis: Any = node.args[1]
        return first_operand(node), axis % node.meta["val"].dim(), (node,)
    quotient = _read_quotient(node)
    if quotient is None or quotient[0].target is not aten.exp.default:
        return None
    exponentials, total = quotient
    shifted = first_operand(exponentials)
    if shifted.target is not aten.sub.Tensor or shifted.kwargs:
        return None
    scores, largest = shifted.args
    sums = _read_reduction(total, exponentials, aten.sum.dim_IntList)
    peaks = _read_reduction(largest, scores, aten.amax.default, aten.max.dim)
    if sums is None or peaks is None or sums[0] != peaks[0] or not isinstance(scores, Node):
        return None
    return (
        scores,
        sums[0],
        (node, exponentials, shifted, *sums[1], *peaks[1], *node.all_input_nodes),
    )


def _read_quotient(node: Node) -> tuple[Node, Node] | None:
    """Return a dividend and its divisor, also where the reciprocal is multiplied."""
    args: Any = node.args
    if len(args) != 2 or not all(isinstance(arg, Node) for arg in args):
        return None
    if node.target is aten.div.Tensor:
        return args[0], args[1]
    if node.target is not aten.mul.Tensor or args[1].target is not aten.reciprocal.default:
        return None
    return args[0], first_operand(args[1])


def _read_reduction(node: Any, of: Any, *targets: Any) -> tuple[int, list[Node]] | None:
    """Return the only axis over which a tensor reduces another, and the nodes of it.

    It broadcasts back over that axis.
    """
    views: list[Node] = []
    while is_view(node):
        views.append(node)
        node = node.args[0]
    nodes = [*views, node]
    if getattr(node, "target", None) is operator.getitem and node.args[1] == 0:
        node = node.args[0]
        nodes.append(node)
    if getattr(node, "target", None) not in targets or node.args[0] is not of:
        return None
    axes: Any = (*node.args, None)[1]
    axes = [axes] if isinstance(axes, int) else axes or ()
    whole = whole_axes(of.meta["val"].shape)
    if len(axes) != 1:
        return None
    axis = axes[0] % len(whole)
    reduced = (*whole[:axis], (), *whole[axis + 1 :])
    keeps = len(node.args) > 2 and node.args[2]
    dims: Dims | None = reduced if keeps else (*whole[:axis], *whole[axis + 1 :])
    for view in reversed(views):
        dims = None if dims is None else follow_view(view, dims)
    if dims is None:
        return None
    padded = ((),) * (len(whole) - len(dims)) + dims
    fits = (
        g == r or (at == axis and is_repeated(g)) for at, (g, r) in enumerate(zip(padded, reduced))
    )
    return (axis, nodes) if len(padded) == len(whole) and all(fits) else None
