"""Products as Triton kernels of the program's own, with what surrounds them fused.

Inductor leaves products to libraries unless it times them. Here each becomes an operator that is
lowered to a template of ``_product_template``: Inductor's machinery for templates computes an
operand's elementwise producer where the product loads it, and what follows where the product is
stored. Products of one row or column become sums, which need no tensor cores.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch.fx import GraphModule, Node

from solkit.adapters.inductor_program._narrow_products import (
    CONVERSIONS,
    NARROW,
    PRODUCTS,
    emitter,
    with_addend,
)
from solkit.adapters.inductor_program._product_template import PROCESSORS, product

OWN_PRODUCTS = "solkit.own_products"
"""Setting of a program, next to those of Inductor: Triton's precision of products of fp32."""
SPLIT_PRODUCTS = "solkit.split_products"
"""The same, with long products of few blocks summed in parts."""

aten = torch.ops.aten
Emit = Callable[..., Node]
_TARGETS = {**PRODUCTS, aten.bmm.dtype: 0}


def own_products(module: GraphModule, precision: str, *, split: bool = False) -> bool:
    """Make products kernels of the program; tell whether there are any.

    Args:
        module: its graph.
        precision: of products of fp32: ``"ieee"``, ``"tf32x3"`` or ``"tf32"``.
        split: sum long products of few blocks in parts; without any, nothing counts as changed.
    """
    graph = module.graph
    nodes = [node for node in graph.nodes if node.target in _TARGETS and _is_suited(node)]
    parts = [_parts(*_factors(node)) if split else 1 for node in nodes]
    for node, count in zip(nodes, parts, strict=True):
        with graph.inserting_before(node):
            emit, factors = emitter(graph), _factors(node)
            if is_alone := factors[0].meta["val"].shape[:-2] == (1,):
                factors = tuple(emit(aten.squeeze.dim, factor, 0) for factor in factors)
            result = _emit_product(emit, factors, node.meta["val"].dtype, precision, count)
            if is_alone:
                result = emit(aten.unsqueeze.default, result, 0)
            if _TARGETS[node.target]:
                result = with_addend(emit, node, result)
            result = _converted(emit, result, node.meta["val"].dtype)
        node.replace_all_uses_with(result)
        graph.erase_node(node)
    graph.eliminate_dead_code()
    module.recompile()
    return max(parts, default=1) > 1 if split else bool(nodes)


def _factors(node: Node) -> tuple[Node, ...]:
    place = _TARGETS[node.target]
    first, second = node.args[place : place + 2]
    assert isinstance(first, Node)
    assert isinstance(second, Node)
    return first, second


_MOST_BATCHES = 65535
"""Programs along the second axis of a grid."""


def _is_suited(node: Node) -> bool:
    values = [factor.meta["val"] for factor in _factors(node)]
    return (
        len({value.dtype for value in values}) == 1
        and values[0].dtype in (*NARROW, torch.float32)
        and all(value.numel() for value in values)
        and (values[0].dim() == 2 or values[0].shape[0] <= _MOST_BATCHES)
    )


_TILE, _LEAST_DEPTH = 64, 256
"""Rows and columns of a block, and the least length of a part, by which parts are counted."""
_MORE_TRAFFIC = 0.25
"""Bytes of the parts' sums, relative to those of the operands, at the most."""


def _parts(first: Node, second: Node) -> int:
    """Return in how many parts a reduction is summed: as few as occupy the GPU, else 1."""
    (*batch, rows, depth), columns = first.meta["val"].shape, second.meta["val"].shape[-1]
    blocks = -(-rows // _TILE) * -(-columns // _TILE)
    if math.prod(batch) > 1 or min(rows, columns) == 1 or blocks >= PROCESSORS:
        return 1
    operands = depth * (rows + columns) * first.meta["val"].dtype.itemsize
    sums = 2 * torch.float32.itemsize * rows * columns  # written and read
    most = min(depth // _LEAST_DEPTH, int(_MORE_TRAFFIC * operands / sums))
    counts = [count for count in (2, 4, 8, 16, 32) if count <= most]
    enough = [count for count in counts if count * blocks >= PROCESSORS]
    return min(enough, default=max(counts, default=1))


def _emit_product(
    emit: Emit, factors: tuple[Node, ...], dtype: torch.dtype, precision: str, parts: int
) -> Node:
    """Return a product: in parts, as sums of one row or column, or as it is."""
    first, second = factors
    if 1 in (first.meta["val"].shape[-2], second.meta["val"].shape[-1]):
        return _emit_sums(emit, first, second)
    if parts == 1:
        return emit(product, first, second, dtype, precision, 1)
    sums = emit(product, first, second, torch.float32, precision, parts)
    return emit(aten.sum.dim_IntList, sums, [0])


def _emit_sums(emit: Emit, first: Node, second: Node) -> Node:
    """Return a product of one row or column, in fp32."""
    *batch, _, _ = range(first.meta["val"].dim())
    turned = emit(aten.permute.default, second, [*batch, len(batch) + 1, len(batch)])
    wide = (_converted(emit, factor, torch.float32) for factor in (first, turned))
    products = emit(aten.mul.Tensor, *wide)  # one of both repeats
    is_row = first.meta["val"].shape[-2] == 1
    sums = emit(aten.sum.dim_IntList, products, [-1])
    return emit(aten.unsqueeze.default, sums, -2 if is_row else -1)


def _converted(emit: Emit, node: Node, dtype: torch.dtype) -> Node:
    return node if node.meta["val"].dtype is dtype else emit(CONVERSIONS[0], node, dtype)
