"""Attention that is written out in a graph.

::

    q @ k.T ─ scaled, biased, masked ─ softmax over the keys ─ @ v

What each operator computes decides, not the text: `_axes` follows axes through views.
"""

from __future__ import annotations

import math
import operator
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch.fx import Node

from solkit.adapters.inductor_program._axes import (
    Atom,
    Dims,
    follow_view,
    is_repeated,
    is_view,
    whole_axes,
)
from solkit.adapters.inductor_program._narrow_products import CONVERSIONS, NARROW, PRODUCTS

aten = torch.ops.aten
_FLOATS = (*NARROW, torch.float32)
_BATCH, _FIRST, _SECOND = range(3)  # axes of a product
MASKED = -1e4
"""A score so low that its exponential is 0 next to any other."""


@dataclass(frozen=True)
class WrittenAttention:
    """Attention over one axis of a batch.

    Attributes:
        query, key, value: with a batch, rows and columns.
        scale: number by which scores are multiplied.
        biases: added to scores, each times its factor.
        masks: keep scores where they are true, or false where the factor is 0.
        is_finite: whether a row without keys has weights all the same.
    """

    query: Operand
    key: Operand
    value: Operand
    scale: float
    biases: tuple[Operand, ...]
    masks: tuple[Operand, ...]
    is_finite: bool

    def checked(self) -> WrittenAttention | None:
        """Return it if kernels of PyTorch's may do it."""
        dtypes = {operand.source.meta["val"].dtype for operand in self.operands()}
        fits = dtypes <= {*_FLOATS} and len(dtypes & {*NARROW}) <= 1
        fits &= all(operand.source.meta["val"].numel() for operand in self.operands())
        are_masks = all(m.source.meta["val"].dtype is torch.bool for m in self.masks)
        return self if fits and are_masks and 0 < self.scale < math.inf else None

    def operands(self) -> tuple[Operand, Operand, Operand]:
        """Return queries, keys and values."""
        return self.query, self.key, self.value


def read_attention(node: Node, place: int) -> WrittenAttention | None:
    """Return the attention whose weights are a factor of a product; ``None`` if there is none."""
    weights, values = node.args[place], node.args[1 - place]
    assert isinstance(weights, Node)
    assert isinstance(values, Node)
    path = _read_weights(weights)
    if path is None or path.product is None or path.is_used_elsewhere(node):
        return None
    final = (_BATCH, _SECOND, _FIRST) if place else (_BATCH, _FIRST, _SECOND)
    keys = _axis_of_keys(path, final)
    if keys is None:
        return None
    start = PRODUCTS[path.product.target]
    first, second = (read_operand(factor) for factor in path.product.args[start : start + 2])  # type: ignore[arg-type]
    factors = first.ordered(0, 1, 2), second.ordered(0, 2, 1)
    query, key = factors if keys == _SECOND else factors[::-1]
    value = read_operand(values).ordered(*final)
    try:
        biases = tuple(_read_side(side, path, final) for side in path.biases)
        masks = tuple(_read_side(side, path, final) for side in path.masks)
    except _UnevenError:
        return None
    scale = path.scale * query.factor * key.factor
    return WrittenAttention(query, key, value, scale, biases, masks, path.is_finite).checked()


def _axis_of_keys(path: _Path, order: tuple[int, ...]) -> int | None:
    """Return the axis of the first product along which softmax runs.

    ``None`` unless it is one, and the weights have a batch, queries and keys in this order.
    """
    assert path.product is not None
    sizes = path.product.meta["val"].shape
    whole = whole_axes([1] * (3 - len(sizes)) + list(sizes))
    scores, (before, axis) = whole[3 - len(sizes) :], path.softmax
    at_softmax = path.followed(scores, len(path.nodes), before)
    at_end = path.followed(scores, len(path.nodes))
    if at_softmax is None or at_end is None:
        return None
    keys = next((place for place in (1, 2) if at_softmax[axis] == whole[place] != ()), None)
    if keys is None:
        return None
    ends = Operand(path.product, at_end).ordered(*order).dims
    return keys if ends == (whole[0], whole[3 - keys], whole[keys]) else None


class _UnevenError(Exception):
    """A tensor whose axes are no parts of those of the scores."""


def _read_side(side: _Side, path: _Path, order: tuple[int, ...]) -> Operand:
    """Return a bias or a mask with the axes of the weights."""
    operand = read_operand(side.node)
    padded = ((),) * (len(side.shape) - len(operand.dims)) + operand.dims
    pairs = zip(padded, side.shape, strict=True)
    dims: Dims | None = tuple(g if g or size == 1 else (Atom(None, size),) for g, size in pairs)
    dims = path.followed(dims, side.place) if dims is not None else None
    if dims is None:
        raise _UnevenError
    return replace(operand, dims=dims, factor=operand.factor * side.factor).ordered(*order)


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
        inner = read_operand(_first(node))
        dims = follow_view(node, inner.dims)
        if dims is not None:
            return replace(inner, dims=dims)
    elif node.target in CONVERSIONS and _is_widening(node):
        return read_operand(_first(node))
    elif (scaled := scaled_tensor(node)) is not None:
        inner = read_operand(scaled[0])
        if node.meta["val"].dtype in _FLOATS and inner.source.meta["val"].dtype in _FLOATS:
            return replace(inner, factor=inner.factor * scaled[1])
    return Operand(node, whole_axes(node.meta["val"].shape))


def _first(node: Any) -> Node:
    source: Node = node.args[0]
    return source


def _is_widening(node: Node) -> bool:
    before, after = _first(node).meta["val"].dtype, node.meta["val"].dtype
    both = before in _FLOATS and after in _FLOATS
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
    return is_conversion and value.meta["val"].dtype in _FLOATS


def _is_alike(one: Node, other: Node) -> bool:
    return bool(one.meta["val"].shape == other.meta["val"].shape)


# ---------------------------------------------------------------------------------- scores


@dataclass(frozen=True)
class _Side:
    """A tensor that is added to scores, or says which of them are kept.

    Attributes:
        node: itself.
        factor: by which it counts; for a mask 1 if it keeps where true, 0 where false.
        shape: of the scores there.
        place: how many nodes of the path lie behind.
    """

    node: Node
    factor: float
    shape: tuple[int, ...]
    place: int


@dataclass(frozen=True)
class _Path:
    """Steps from the scores to the weights, read backwards.

    Attributes:
        nodes: those that hold scores or weights, the last first.
        product: of queries and keys.
        softmax: how many of the nodes come behind it, and its axis.
        inner: further nodes of the softmax.
        scale: number by which scores are multiplied.
        biases, masks: tensors beside them.
        is_finite: whether a mask fills in a number above minus infinity.
    """

    nodes: tuple[Node, ...] = ()
    product: Node | None = None
    softmax: tuple[int, int] = (0, 0)
    inner: tuple[Node, ...] = ()
    scale: float = 1.0
    biases: tuple[_Side, ...] = ()
    masks: tuple[_Side, ...] = ()
    is_finite: bool = False

    def followed(self, dims: Dims, until: int, since: int = 0) -> Dims | None:
        """Return axes after the views of the path from one place to another, backwards."""
        current: Dims | None = dims
        for node in reversed(self.nodes[since:until]):
            if current is not None and is_view(node):
                current = follow_view(node, current)
        return current

    def is_used_elsewhere(self, last: Node) -> bool:
        """Tell whether scores or weights have another use than the product `last`."""
        own = {*self.nodes, *self.inner, self.product, last}
        return any(user not in own for node in own - {last} if node for user in node.users)


def _read_weights(node: Node) -> _Path | None:
    """Return the path to the weights of a product; ``None`` if they are none."""
    path = _Path()
    while is_view(node) or (node.target in CONVERSIONS and is_float_conversion(node)):
        path = replace(path, nodes=(*path.nodes, node))
        node = _first(node)
    softmax = read_softmax(node)
    if softmax is None:
        return None
    scores, axis, inner = softmax
    path = replace(path, softmax=(len(path.nodes), axis), inner=inner)
    return _read_scores(scores, path)


def is_float_conversion(node: Node) -> bool:
    return node.meta["val"].dtype in _FLOATS and _first(node).meta["val"].dtype in _FLOATS


def _read_scores(node: Any, path: _Path) -> _Path | None:
    """Return the path with all between a product and these scores; ``None`` if there is more."""
    if not isinstance(node, Node):
        return None
    if node.target in PRODUCTS:
        return _with_product(node, path)
    here = replace(path, nodes=(*path.nodes, node))
    if is_view(node) or (node.target in CONVERSIONS and is_float_conversion(node)):
        return _read_scores(node.args[0], here)
    if (scaled := scaled_tensor(node)) is not None:
        return _read_scores(scaled[0], replace(here, scale=path.scale * scaled[1]))
    if node.target in (aten.add.Tensor, aten.sub.Tensor):
        return _read_sum(node, here)
    if node.target is aten.where.self:
        return _read_mask(node, here)
    return None


def _with_product(node: Node, path: _Path) -> _Path:
    if not PRODUCTS[node.target]:
        return replace(path, product=node)
    alpha, beta = node.kwargs.get("alpha", 1), node.kwargs.get("beta", 1)
    addend: Any = node.args[0]
    side = _side(addend, path.scale * float(beta), node, path)  # type: ignore[arg-type]
    scale = path.scale * float(alpha)  # type: ignore[arg-type]
    return replace(path, product=node, scale=scale, biases=(*path.biases, side))


def _side(node: Node, factor: float, scores: Node, path: _Path) -> _Side:
    return _Side(node, factor, tuple(scores.meta["val"].shape), len(path.nodes))


def _read_sum(node: Node, path: _Path) -> _Path | None:
    sign = -1.0 if node.target is aten.sub.Tensor else 1.0
    alpha: Any = node.kwargs.get("alpha", 1)
    for place in range(1 if sign < 0 or alpha != 1 else 2):
        scores, other = node.args[place], node.args[1 - place]
        if not isinstance(scores, Node) or not _is_alike(scores, node):
            continue
        beside = path
        if isinstance(other, Node):
            side = _side(other, sign * alpha * path.scale, node, path)
            beside = replace(path, biases=(*path.biases, side))
        elif not math.isfinite(other):  # type: ignore[arg-type]
            continue
        if (result := _read_scores(scores, beside)) is not None:  # a number changes no softmax
            return result
    return None


def _read_mask(node: Node, path: _Path) -> _Path | None:
    for place in (1, 2):
        scores, fill = node.args[place], number_in(node.args[3 - place])
        if fill is None or not isinstance(scores, Node) or not _is_alike(scores, node):
            continue
        if not fill * path.scale <= MASKED:
            return None
        condition: Any = node.args[0]
        side = _side(condition, 1.0 if place == 1 else 0.0, node, path)
        is_finite = path.is_finite or not math.isinf(fill)
        return _read_scores(scores, replace(path, masks=(*path.masks, side), is_finite=is_finite))
    return None


def read_softmax(node: Node) -> tuple[Node, int, tuple[Node, ...]] | None:
    """Return the scores and the axis of a softmax, with the nodes that compute it."""
    if node.target is aten._softmax.default:
        axis: Any = node.args[1]
        return _first(node), axis % node.meta["val"].dim(), (node,)
    quotient = _read_quotient(node)
    if quotient is None or quotient[0].target is not aten.exp.default:
        return None
    exponentials, total = quotient
    shifted = _first(exponentials)
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
    is_reciprocal = args[1].target is aten.reciprocal.default
    return (args[0], _first(args[1])) if node.target is aten.mul.Tensor and is_reciprocal else None


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
