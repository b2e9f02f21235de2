"""Operations, comparisons and calls by their parts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeGuard

import libcst as cst

from solkit.tuner.proposers.rewriter._nodes import (
    called_name,
    nodes_within,
    plain_code,
    render_code,
)

HALVES = ("tl.float16", "tl.bfloat16")
"""Floats of 16 bits."""

FLIPPED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}
"""Comparisons, and what they are once their sides change places."""


_MINUS_INFINITIES = frozenset(
    {'float("-inf")', '-float("inf")'}
    | {f"-{module}.inf" for module in ("torch", "math", "np", "numpy")}
)


def is_operation(
    node: object, *operators: type[cst.BaseBinaryOp]
) -> TypeGuard[cst.BinaryOperation]:
    """Tell whether a node is an operation of two operands with one of these operators."""
    return isinstance(node, cst.BinaryOperation) and isinstance(node.operator, operators)


def both_orders(
    node: object, *operators: type[cst.BaseBinaryOp]
) -> tuple[tuple[cst.BaseExpression, cst.BaseExpression], ...]:
    """Return the operands of a commutative operation in both orders; none for other nodes."""
    if not is_operation(node, *operators):
        return ()
    return (node.left, node.right), (node.right, node.left)


def nested_operands(
    node: cst.BaseExpression, *operators: type[cst.BaseBinaryOp]
) -> list[cst.BaseExpression]:
    """Return the operands of operations within each other, as the terms of a sum are."""
    if not is_operation(node, *operators):
        return [node]
    sides = node.left, node.right
    return [part for side in sides for part in nested_operands(side, *operators)]


def divisions_of(name: str, *within: cst.CSTNode) -> list[cst.BinaryOperation]:
    """Return quotients and remainders of what a name stands for, outermost first."""
    return [
        node
        for node in nodes_within(*within)
        if is_operation(node, cst.FloorDivide, cst.Modulo) and render_code(node.left) == name
    ]


def comparison_parts(node: object) -> tuple[cst.BaseExpression, str, cst.BaseExpression] | None:
    """Return both sides of a comparison around its sign; ``None`` for chains and other nodes."""
    if not isinstance(node, cst.Comparison) or len(node.comparisons) != 1:
        return None
    (target,) = node.comparisons
    return node.left, cst.Module([]).code_for_node(target.operator).strip(), target.comparator


def compared_sides(
    node: object, *signs: str
) -> tuple[cst.BaseExpression, cst.BaseExpression] | None:
    """Return both sides of a comparison with one of these signs; ``None`` for other nodes."""
    parts = comparison_parts(node)
    return (parts[0], parts[2]) if parts is not None and parts[1] in signs else None


def conjuncts(mask: cst.BaseExpression) -> list[cst.BaseExpression]:
    """Return the parts of a mask that all have to be true."""
    return nested_operands(mask, cst.BitAnd)


def is_minus_infinity(node: cst.BaseExpression) -> bool:
    """Tell whether an expression is written as minus infinity."""
    return plain_code(node).replace("'", '"') in _MINUS_INFINITIES


def rounded_up(node: cst.CSTNode) -> cst.BaseExpression | None:
    """Return ``n`` of ``(n + block - 1) // block``; ``None`` for other nodes."""
    if not is_operation(node, cst.FloorDivide):
        return None
    block, whole = plain_code(node.right), node.left
    if is_operation(whole, cst.Subtract) and plain_code(whole.right) == "1":
        whole, rest = whole.left, block
    else:
        rest = f"{block}-1"
    is_sum = is_operation(whole, cst.Add) and plain_code(whole.right) == rest
    return whole.left if is_sum and isinstance(whole, cst.BinaryOperation) else None


def is_zero(node: cst.BaseExpression) -> bool:
    """Tell whether an expression is written as zero."""
    return plain_code(node) in ("0", "0.0")


def converted_value(node: object) -> cst.BaseExpression | None:
    """Return ``x`` of ``x.to(...)``; ``None`` for other nodes."""
    if not isinstance(node, cst.Call) or not isinstance(node.func, cst.Attribute):
        return None
    return node.func.value if node.func.attr.value == "to" else None


def without_conversions(node: cst.BaseExpression) -> cst.BaseExpression:
    """Return a value without its conversions to other types."""
    while (inner := converted_value(node)) is not None:
        node = inner
    return node


_OF_FP32 = frozenset("exp exp2 log log2 sqrt rsqrt sin cos sigmoid erf dot".split())
"""Functions of Triton that take, or give, no narrower floats."""
_KEEPING = frozenset("where maximum minimum abs".split())
"""Functions whose result is as wide as an operand."""


def is_fp32(
    node: cst.BaseExpression, values: Mapping[str, cst.BaseExpression], names: int = 12
) -> bool:
    """Tell whether the text shows that a value is of fp32 or wider.

    Args:
        node: the value.
        values: of names.
        names: how many may stand for one another.
    """
    if isinstance(node, cst.Name):
        value = values.get(node.value)
        return names > 0 and value is not None and is_fp32(value, values, names - 1)
    if is_operation(node, cst.Add, cst.Subtract, cst.Multiply, cst.Divide):
        return any(is_fp32(side, values, names - 1) for side in (node.left, node.right))
    if isinstance(node, (cst.UnaryOperation, cst.Subscript)):
        inner = node.expression if isinstance(node, cst.UnaryOperation) else node.value
        return is_fp32(inner, values, names)
    if converted_value(node) is not None or called_name(node) == "tl.cast":
        return plain_code(call_args(node)[-1]) in ("tl.float32", "tl.float64")
    name, args = called_name(node).rpartition(".")[-1], call_args(node)
    if name in _KEEPING:
        return any(is_fp32(arg, values, names) for arg in args[1 if name == "where" else 0 :])
    return name in _OF_FP32


def call_args(node: cst.CSTNode) -> list[cst.BaseExpression]:
    """Return the arguments of a call, those by keyword too; none for other nodes."""
    return [arg.value for arg in node.args] if isinstance(node, cst.Call) else []
