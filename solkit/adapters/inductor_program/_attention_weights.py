"""Weights of attention: the softmax of scores, as a factor of a product with values.

::

    q @ k.T ─ elementwise operators ─ softmax over the keys ─ @ v
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from torch.fx import Node

from solkit.adapters.inductor_program._axes import Dims, follow_view, is_view, whole_axes
from solkit.adapters.inductor_program._narrow_products import CONVERSIONS, PRODUCTS
from solkit.adapters.inductor_program._score_text import Forward, broadcast, is_elementwise
from solkit.adapters.inductor_program._written_attention import (
    Operand,
    is_float_conversion,
    read_operand,
    read_softmax,
)


@dataclass(frozen=True)
class Weights:
    """Weights of attention, and what is multiplied by them.

    Attributes:
        scores: of which softmax is taken.
        forward: gives their axes as a batch, queries and keys.
        product: of queries and keys; scores are elementwise functions of it.
        dims: axes of the product that are the batch, queries and keys.
        query, key, value: with a batch, rows and columns.
        order: axes of the product with values that are the batch, queries and columns.
        used: nodes that may use scores and weights.
    """

    scores: Node
    forward: Forward
    product: Node
    dims: Dims
    query: Operand
    key: Operand
    value: Operand
    order: tuple[int, ...]
    used: frozenset[Node]


def read_weights(node: Node, place: int) -> Weights | None:
    """Return the weights that are a factor of a product; ``None`` if it is no softmax of scores."""
    weights, values = node.args[place], node.args[1 - place]
    assert isinstance(weights, Node)
    assert isinstance(values, Node)
    behind: list[Node] = []
    current: Any = weights
    while is_view(current) or (current.target in CONVERSIONS and is_float_conversion(current)):
        behind.append(current)
        current = current.args[0]
    softmax = read_softmax(current)
    if softmax is None:
        return None
    scores, axis, inner = softmax
    order = (0, 2, 1) if place else (0, 1, 2)

    def forward(dims: Dims) -> Dims | None:
        followed: Dims | None = dims
        for view in reversed(behind):
            if followed is not None and is_view(view):
                followed = follow_view(view, followed)
        return None if followed is None else _ordered(followed, order)

    whole = whole_axes(scores.meta["val"].shape)
    ends = forward(whole)
    if ends is None or ends[2] != whole[axis] or not ends[2]:
        return None
    scored = _find_product(scores, forward, set())
    used = frozenset({node, *behind, *inner})
    if scored is None or any(user not in used for own in used - {node} for user in own.users):
        return None
    product, dims = scored
    value = read_operand(values).ordered(*order)
    return Weights(scores, forward, product, dims, *_operands_of(product, dims), value, order, used)


def _ordered(dims: Dims, order: tuple[int, ...]) -> Dims:
    padded = dims if len(dims) == 3 else ((), *dims)
    return tuple(padded[axis] for axis in order)


def _find_product(node: Node, forward: Forward, seen: set[Node]) -> tuple[Node, Dims] | None:
    """Return the product of queries and keys, and which of its axes are those of scores."""
    if node in seen:
        return None
    seen.add(node)
    if node.target in PRODUCTS:
        dims = forward(whole_axes(node.meta["val"].shape))
        whole = _ordered(whole_axes(node.meta["val"].shape), (0, 1, 2))
        is_product = dims in (whole, _ordered(whole, (0, 2, 1)))
        return (node, dims) if dims is not None and is_product else None
    if is_view(node):
        source: Any = node.args[0]
        if follow_view(node, whole_axes(source.meta["val"].shape)) is None:
            return None
        return _find_product(source, through_view(node, forward), seen)
    if not is_elementwise(node):
        return None
    products = (
        _find_product(arg, broadcast(node, arg, forward), seen) for arg in node.all_input_nodes
    )
    return next((product for product in products if product is not None), None)


def through_view(view: Node, forward: Forward) -> Forward:
    """Return how the axes of a view's source become those of scores."""

    def follow(dims: Dims) -> Dims | None:
        followed = follow_view(view, dims)
        return None if followed is None else forward(followed)

    return follow


def _operands_of(product: Node, dims: Dims) -> tuple[Operand, Operand]:
    """Return queries and keys."""
    start = PRODUCTS[product.target]
    first, second = (read_operand(factor) for factor in product.args[start : start + 2])  # type: ignore[arg-type]
    factors = first.ordered(0, 1, 2), second.ordered(0, 2, 1)
    whole = _ordered(whole_axes(product.meta["val"].shape), (0, 1, 2))
    return factors if dims[2] == whole[2] else factors[::-1]
