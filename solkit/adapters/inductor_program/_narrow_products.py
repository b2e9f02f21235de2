"""Products in the 16 bits that their operands had before they were widened.

``x.float() @ w.float()`` runs on no tensor core in fp32. Where both operands were of 16 bits, or
integers of 8, each product is exact in fp32, so the same sum comes of the narrow operands. Where
one was, the other is rounded to it: whoever measures such a program has to check it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch.fx import Graph, GraphModule, Node

NARROW_PRODUCTS = "solkit.narrow_products"
"""Setting of a program, next to those of Inductor."""

aten = torch.ops.aten
NARROW = (torch.float16, torch.bfloat16)
_INTEGERS = (torch.int8, torch.uint8)
CONVERSIONS = (torch.ops.prims.convert_element_type.default, aten._to_copy.default)
_VIEWS = {
    *(aten.view.default, aten._unsafe_view.default, aten.reshape.default, aten.expand.default),
    *(aten.permute.default, aten.transpose.int, aten.t.default, aten.clone.default),
    *(aten.unsqueeze.default, aten.squeeze.dim, aten.slice.Tensor, aten.select.int),
}
PRODUCTS: Mapping[Any, int] = {
    aten.mm.default: 0,
    aten.bmm.default: 0,
    aten.addmm.default: 1,
    aten.baddbmm.default: 1,
}
"""Products, with the place of their first factor."""


def narrow_products(module: GraphModule, *, exact: bool = False) -> bool:
    """Compute products of widened operands in their former dtype; tell whether there are any.

    Args:
        module: the graph.
        exact: leave those of which one operand would be rounded.
    """
    nodes = [node for node in module.graph.nodes if node.target in PRODUCTS]
    changed = [_narrow_product(module.graph, node, exact) for node in nodes]
    if any(changed):
        module.graph.eliminate_dead_code()
        module.recompile()
    return any(changed)


def _narrow_product(graph: Graph, node: Node, exact: bool) -> bool:
    place = PRODUCTS[node.target]
    factors = node.args[place : place + 2]
    if node.meta["val"].dtype is not torch.float32:
        return False
    former = [_former_dtype(factor) for factor in factors]
    dtypes = {dtype for dtype in former if dtype is not None and dtype in NARROW}
    if {*former} <= {*_INTEGERS}:
        dtypes = {torch.float16}  # which holds their 8 bits
    if len(dtypes) != 1 or (exact and None in former):
        return False
    (dtype,) = dtypes
    with graph.inserting_before(node):
        emit = emitter(graph)
        result = _product(emit, *(_narrowed(emit, factor, dtype) for factor in factors))
        if place:
            result = with_addend(emit, node, result)
    node.replace_all_uses_with(result)
    graph.erase_node(node)
    return True


def emitter(graph: Graph) -> Callable[..., Node]:
    """Return a function that adds an operator with the properties of its result."""

    def emit(target: Any, *args: Any, **kwargs: Any) -> Node:
        node = graph.call_function(target, args, kwargs)
        values = [arg.meta["val"] if isinstance(arg, Node) else arg for arg in args]
        node.meta["val"] = target(*values, **kwargs)
        return node

    return emit


def _former_dtype(factor: Any) -> torch.dtype | None:
    """Return the dtype of 16 bits or of small integers that a factor was; ``None`` if none."""
    while isinstance(factor, Node) and factor.target in _VIEWS:
        factor = factor.args[0]
    if not isinstance(factor, Node) or factor.target not in CONVERSIONS:
        return None
    source = factor.args[0]
    dtype = source.meta["val"].dtype if isinstance(source, Node) else None
    return dtype if dtype in (*NARROW, *_INTEGERS) else None


def _narrowed(emit: Callable[..., Node], factor: Any, dtype: torch.dtype) -> Node:
    """Return a factor in a 16-bit dtype: without the widening, if there was one."""
    if _former_dtype(factor) is None:
        return emit(torch.ops.prims.convert_element_type.default, factor, dtype)
    if factor.target in _VIEWS:
        inner = _narrowed(emit, factor.args[0], dtype)
        return emit(factor.target, inner, *factor.args[1:], **factor.kwargs)
    source: Node = factor.args[0]
    is_same = source.meta["val"].dtype is dtype
    return source if is_same else emit(CONVERSIONS[0], source, dtype)


def _product(emit: Callable[..., Node], first: Node, second: Node) -> Node:
    """Return the product in fp32; of matrices as a batch of one, which has such an operator."""
    if first.meta["val"].dim() == 3:
        return emit(aten.bmm.dtype, first, second, torch.float32)
    batches = (emit(aten.unsqueeze.default, factor, 0) for factor in (first, second))
    return emit(aten.squeeze.dim, emit(aten.bmm.dtype, *batches, torch.float32), 0)


def with_addend(emit: Callable[..., Node], node: Node, product: Node) -> Node:
    """Return what ``addmm`` or ``baddbmm`` makes of its product."""
    alpha, beta = node.kwargs.get("alpha", 1), node.kwargs.get("beta", 1)
    scaled = product if alpha == 1 else emit(aten.mul.Tensor, product, alpha)
    if beta == 0:  # what would be added counts for nothing, be it infinite
        return scaled
    addend = node.args[0] if beta == 1 else emit(aten.mul.Tensor, node.args[0], beta)
    return emit(aten.add.Tensor, scaled, addend)
