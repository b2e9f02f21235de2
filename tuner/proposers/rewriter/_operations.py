"""Operations, comparisons and calls by their parts."""

from __future__ import annotations

from typing import TypeGuard

import libcst as cst

__all__ = ["is_operation"]


def is_operation(node: object, *operators: type[cst.BaseBinaryOp]) -> TypeGuard[cst.BinaryOperation]:
    """Tell whether a node is an operation of two operands with one of these operators."""
    return isinstance(node, cst.BinaryOperation) and isinstance(node.operator, operators)
