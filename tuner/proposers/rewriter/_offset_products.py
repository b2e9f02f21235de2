"""Offsets as sums of products of factors, with the axes that blocks are spread along."""

from __future__ import annotations

import libcst as cst

from solkit.tuner.proposers.rewriter._nodes import compact_code, render_code

Product = tuple[str, ...]


class OtherOffsetError(Exception):
    """An offset is no sum of products."""


def offset_products(node: cst.BaseExpression) -> list[Product]:
    """Return an expression as a sum of products of factors' codes.

    Raises:
        OtherOffsetError: it is none.
    """
    if isinstance(node, cst.BinaryOperation):
        if isinstance(node.operator, cst.Add):
            return [*offset_products(node.left), *offset_products(node.right)]
        if isinstance(node.operator, cst.Multiply):
            return [
                tuple(sorted((*one, *two)))
                for one in offset_products(node.left)
                for two in offset_products(node.right)
            ]
        if isinstance(node.operator, cst.Subtract):
            raise OtherOffsetError(render_code(node))
    if isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute) and node.args:
        is_wider = node.func.attr.value == "to" and "int" in render_code(node.args[0])
        if is_wider:
            return offset_products(node.func.value)
    if isinstance(node, cst.Subscript) and (spread := _spread(node)):
        return [_with_spread(product, spread) for product in offset_products(node.value)]
    text = compact_code(node)
    if isinstance(node, cst.Integer):
        return [] if text == "0" else [() if text == "1" else (text,)]
    return [(text,)]


def _spread(node: cst.Subscript) -> str:
    """Return the axes that a subscript adds, such as ``"[:,None]"``; empty for other ones."""
    entries = [render_code(element.slice) for element in node.slice]
    return f"[{','.join(entries)}]" if set(entries) <= {":", "None"} else ""


def _with_spread(product: Product, spread: str) -> Product:
    """Return a product of one block's elements, spread along more axes.

    Raises:
        OtherOffsetError: several factors may be the block, or it has been spread before.
    """
    blocks = [factor for factor in product if factor.startswith("_index_")]
    if not blocks:
        return (f"({'*'.join(product)}){spread}",)
    if len(blocks) != 1 or "[" in "".join(product):
        raise OtherOffsetError(" * ".join(product) + spread)
    return tuple(sorted(f"{f}{spread}" if f == blocks[0] else f for f in product))


def unspread(factor: str) -> tuple[str, str]:
    """Return an index and the axes that it is spread along."""
    name, bracket, axes = factor.partition("[")
    return name, bracket + axes
