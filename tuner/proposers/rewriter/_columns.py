"""Columns that grow with a loop, rows that do not, and the ends of their ranges."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeGuard

import libcst as cst

from solkit.tuner.proposers.rewriter._nodes import (
    HINTS,
    Loop,
    Values,
    called_name,
    calls_within,
    integer_literal,
    names_within,
    nodes_within,
    parenthesized,
    parse_expression,
    plain_code,
    render_code,
    replace_each,
    substitute_names,
)
from solkit.tuner.proposers.rewriter._operations import (
    FLIPPED,
    both_orders,
    call_args,
    comparison_parts,
    is_operation,
)
from solkit.tuner.proposers.rewriter._parse import JitFunction
from solkit.tuner.proposers.rewriter._values import all_names, as_blocked_loop


class Columns:
    """Indices that grow with a loop: its first element's index, and a range.

    Args:
        loop: the loop.
        values: what its names are.
        outer: what names before it are.
        function: the loop is in it.
    """

    def __init__(self, loop: Loop, values: Values, outer: Values, function: JitFunction) -> None:
        self._loop, self._values, self._outer = loop, values, outer
        blocked = as_blocked_loop(loop, function)
        counts = blocked is not None and blocked.counts
        first = f"{loop.name}*{blocked.block}" if counts and blocked is not None else loop.name
        step = integer_literal(loop.step) or 0
        self.is_known = step > 0 or render_code(loop.step) in function.constants
        self._width = blocked.block if blocked is not None else render_code(loop.step)
        self._firsts = {first, "*".join(reversed(first.split("*")))}

    def has(self, node: cst.BaseExpression) -> bool:
        """Tell whether an expression is a block of columns from a trip's first on, or that one."""
        node = without_axes(node)
        if self._is_first(node):
            return True
        if isinstance(node, cst.Name) and node.value in self._values:
            return self.has(self._values[node.value])
        sides = both_orders(node, cst.Add)
        return any(self._is_first(one) and self._is_range(other) for one, other in sides)

    def _is_first(self, node: cst.BaseExpression) -> bool:
        if isinstance(node, cst.Name) and node.value in self._values:
            return self._is_first(self._values[node.value])
        return plain_code(_without_hints(node)) in self._firsts

    def _is_range(self, node: cst.BaseExpression) -> bool:
        node = without_axes(node)
        if isinstance(node, cst.Name):
            value = self._values.get(node.value, self._outer.get(node.value))
            return value is not None and self._is_range(value)
        if called_name(node) != "tl.arange":
            return False
        bounds = list(map(render_code, call_args(node)))
        return bounds == ["0", self._width]  # wider blocks reach into the next trip


def _without_hints(node: cst.BaseExpression) -> cst.BaseExpression:
    """Return an index without what the compiler is told of it, and without casts to integers."""
    while isinstance(node, cst.Call):
        if called_name(node) in HINTS:
            node = node.args[0].value
        elif _is_index_cast(node) and isinstance(node.func, cst.Attribute):
            node = node.func.value
        else:
            break
    return node


def _is_index_cast(node: cst.CSTNode) -> TypeGuard[cst.Call]:
    is_cast = isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute)
    return is_cast and render_code(node).endswith((".to(tl.int32)", ".to(tl.int64)"))


def without_axes(node: cst.BaseExpression) -> cst.BaseExpression:
    """Return ``x`` for ``x[:, None]``."""
    node = _without_hints(node)
    while isinstance(node, cst.Subscript):
        if any(isinstance(part.slice, cst.Index) and not _is_none(part) for part in node.slice):
            return node
        node = _without_hints(node.value)
    return node


def _is_none(part: cst.SubscriptElement) -> bool:
    return render_code(part).strip(" ,") == "None"


def expanded_row(node: cst.BaseExpression, values: Values) -> cst.BaseExpression:
    """Return a row without axes, over what the function has before the loop."""
    node = without_axes(node)
    for _ in range(8):
        moving = names_within(node) & set(values)
        if not moving:
            break
        node = substitute_names(node, {n: parenthesized(values[n]) for n in moving})
    pairs = [
        (part, without_axes(part))
        for part in nodes_within(node)
        if isinstance(part, cst.Subscript) or _is_index_cast(part)
    ]
    return replace_each(node, pairs)


@dataclass(frozen=True)
class ColumnBound:
    """``column SIGN row - width``, as a comparison says.

    Attributes:
        sign: such as ``"<"``.
        row: without the columns.
        width: as code; ``"0"`` where there is none.
    """

    sign: str
    row: cst.BaseExpression
    width: str

    @property
    def is_below(self) -> bool:
        """True if the comparison holds ahead of some column, and not from there on."""
        return self.sign in ("<", "<=")

    @property
    def beyond(self) -> str:
        """Addend of the row for the first column from which on the comparison changes."""
        return " + 1" if self.sign in ("<=", ">") else ""


def column_bound(node: cst.BaseExpression, columns: Columns, values: Values) -> ColumnBound | None:
    """Return what a comparison of a loop's columns with a row says; ``None`` for other nodes.

    ``row - column < width`` says that ``column > row - width``.

    Args:
        node: the comparison.
        columns: of the loop.
        values: what the loop's names are.
    """
    if (parts := comparison_parts(node)) is None or parts[1] not in FLIPPED:
        return None
    (first, sign, second), width = parts, "0"
    difference = without_axes(first)
    if isinstance(difference, cst.Name):
        difference = values.get(difference.value, difference)
    if is_operation(difference, cst.Subtract) and (
        columns.has(difference.right) or render_code(second) == "0"
    ):
        width = render_code(parenthesized(second))
        first, second = difference.left, difference.right
    if not columns.has(first):
        first, sign, second = second, FLIPPED[sign], first
    return ColumnBound(sign, second, width) if columns.has(first) else None


def is_index_sum(node: cst.BaseExpression) -> bool:
    """Tell whether an expression is a sum of names, numbers, products and ranges."""
    if isinstance(node, cst.BinaryOperation):
        kinds = (cst.Add, cst.Subtract, cst.Multiply)
        return (
            isinstance(node.operator, kinds)
            and is_index_sum(node.left)
            and is_index_sum(node.right)
        )
    return isinstance(node, (cst.Name, cst.Integer)) or called_name(node) in (
        "tl.arange",
        "tl.program_id",
    )


@dataclass(frozen=True)
class Blocks:
    """Tells blocks from numbers.

    Attributes:
        values: what names are that get a value once before a loop.
        function: they are in it.
    """

    values: Values
    function: JitFunction

    def has(self, node: cst.BaseExpression) -> bool:
        """Tell whether an expression may be a block of one axis."""
        names = all_names(node, self.values) - {"tl", "triton"}
        unknown = names - set(self.values) - set(self.function.params)
        nodes = (node, *(self.values[name] for name in names & set(self.values)))
        return bool(unknown) or any(calls_within(part, "tl.arange") for part in nodes)


def largest_row(node: cst.BaseExpression, blocks: Blocks) -> str:
    """Return the largest element of a row, as code.

    Without a reduction, if it can be: a block that is reduced may be what is computed.
    """
    node = without_axes(node)
    if not blocks.has(node):
        return render_code(parenthesized(node))
    if isinstance(node, cst.Name) and node.value in blocks.values:
        return largest_row(without_axes(blocks.values[node.value]), blocks)
    if called_name(node) == "tl.arange":
        return f"({render_code(call_args(node)[1])} - 1)"
    if is_operation(node, cst.Add):
        return f"{largest_row(node.left, blocks)} + {largest_row(node.right, blocks)}"
    is_less = is_operation(node, cst.Subtract)
    if is_less and isinstance(node, cst.BinaryOperation) and not blocks.has(node.right):
        return f"{largest_row(node.left, blocks)} - {render_code(parenthesized(node.right))}"
    return f"tl.max({render_code(node)})"  # of all axes: loops are bounded by numbers alone


def smallest_row(node: cst.BaseExpression, blocks: Blocks) -> str:
    """Return the smallest element of a row, as code; empty if that would be a reduction."""
    node = without_axes(node)
    if not blocks.has(node):
        return render_code(parenthesized(node))
    if isinstance(node, cst.Name) and node.value in blocks.values:
        return smallest_row(blocks.values[node.value], blocks)
    if called_name(node) == "tl.arange":
        return render_code(call_args(node)[0])
    if not isinstance(node, cst.BinaryOperation):
        return ""
    first = smallest_row(node.left, blocks)
    if isinstance(node.operator, cst.Add):
        second = smallest_row(node.right, blocks)
        return f"{first} + {second}" if first and second else ""
    is_less = isinstance(node.operator, cst.Subtract) and not blocks.has(node.right)
    return f"{first} - {render_code(parenthesized(node.right))}" if is_less and first else ""


def over_range(loop: Loop, start: str, stop: str, step: str) -> cst.For:
    """Return a loop over another range, with the hints that its own range has."""
    words = [render_code(arg) for arg in loop.over.args if arg.keyword is not None]
    code = f"{render_code(loop.over.func)}({', '.join([start, stop, step, *words])})"
    return loop.node.with_changes(iter=parse_expression(code))
