"""Expressions along a row: whether what they give depends on how the row is cut into blocks.

In a loop over blocks of a row, the elements of a block have the columns ``start + arange``. An
expression is *of elements* if each of its elements depends on its own column alone. What a trip
brings to something that is carried may be cut anywhere if it is one of these::

    sum         tl.sum(of elements), times or divided by what all trips share; sums of such
    extremum    tl.max(of elements), or tl.min
    follower    start + tl.argmax(x), or the least column where x is its maximum
    rescaled    a sum, whose elements may be relative to the new maximum

A block that is carried, with an element for each of a trip's, may be cut if only its sum, or its
extreme, is read later.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import libcst as cst

from solkit.tuner.proposers.rewriter._carried import Carried, CarriedKind
from solkit.tuner.proposers.rewriter._lift_expressions import is_elementwise_call
from solkit.tuner.proposers.rewriter._nodes import (
    Node,
    argument_of,
    assigned_names,
    called_name,
    calls_within,
    child_nodes,
    names_within,
    nodes_within,
    render_code,
    replace_each,
    single_assignment,
    walk_statements,
)
from solkit.tuner.proposers.rewriter._operations import call_args, compared_sides, converted_value
from solkit.tuner.proposers.rewriter._parse import JitFunction
from solkit.tuner.proposers.rewriter._places import OtherFormError, Scope, Sum, Term

_EXTREMA = {
    CarriedKind.MAXIMUM: ("tl.max", "tl.argmax", "tl.maximum", "max"),
    CarriedKind.MINIMUM: ("tl.min", "tl.argmin", "tl.minimum", "min"),
}
_FILLS = ("tl.zeros", "tl.full")
_BLOCKS = (*_FILLS, "tl.arange", "tl.make_block_ptr", "tl.make_tensor_descriptor")
_REDUCED = ("tl.sum", "tl.max", "tl.min", "tl.argmax", "tl.argmin")
JOINED = {"tl.sum": "{} + {}", "tl.max": "tl.maximum({}, {})", "tl.min": "tl.minimum({}, {})"}
"""Code that joins what a reduction gives of two parts of a row."""
_MODULES = ("tl", "triton", "libdevice", "float", "int")


def code_of(node: cst.CSTNode) -> str:
    """Return an expression's code with blanks and parentheses as Python has them: one form."""
    return ast.unparse(ast.parse(f"({render_code(node)})", mode="eval"))


def number_names(function: JitFunction) -> frozenset[str]:
    """Return the names that only ever hold one number, also one that was loaded or reduced."""
    numbers = {*function.params, *assigned_names(*function.body)}
    is_flat = not any(isinstance(node, cst.Subscript) for node in nodes_within(function.node.body))
    while True:
        blocks = {
            name
            for statement in walk_statements(function.body)
            if isinstance(statement, cst.SimpleStatementLine)
            and _has_block(statement, numbers, is_flat)
            for name in assigned_names(statement)
        }
        if not blocks & numbers:
            return frozenset(numbers)
        numbers -= blocks


def _has_block(statement: cst.CSTNode, numbers: set[str], is_flat: bool) -> bool:
    """Tell whether a statement computes with blocks; a reduction of one with one axis is none."""
    binding = single_assignment(statement)
    pending: list[cst.CSTNode] = [statement if binding is None else binding.value]
    while pending:
        node = pending.pop()
        name = called_name(node)
        is_other = isinstance(node, cst.Name) and node.value not in (*_MODULES, *numbers)
        if name in _BLOCKS or is_other:
            return True
        if is_flat and name in _REDUCED:
            continue
        pending += [node.value] if isinstance(node, (cst.Attribute, cst.Arg)) else child_nodes(node)
    return False


@dataclass(frozen=True)
class RowPlace:
    """``rest + stride * (start + arange)``.

    Attributes:
        stride: factors between neighbours; none for contiguous elements.
        rest: the same for all columns.
    """

    stride: tuple[str, ...]
    rest: Sum


@dataclass(frozen=True)
class RowElements:
    """Knows which expressions of a loop are of elements.

    Attributes:
        scope: meanings of names in the loop.
        start: the loop's variable, the first column of a trip.
        block: the constant that is its step.
        varying: names that the loop assigns, its variable too.
    """

    scope: Scope
    start: str
    block: str
    varying: frozenset[str]

    def is_fixed(self, node: cst.CSTNode) -> bool:
        """Tell whether an expression is the same in all trips, for blocks of any size."""
        return not names_within(node) & {*self.varying, self.block}

    def place(self, node: cst.BaseExpression) -> RowPlace | None:
        """Return an expression as a sum with a multiple of the columns; ``None`` for others."""
        try:
            terms = self.scope.terms(node).terms
        except OtherFormError:
            return None
        blocks = [term for term in terms if term.block]
        starts = [term for term in terms if self.start in term.factors and not term.block]
        if len(blocks) != 1 or len(starts) != 1 or blocks[0].block != self.block:
            return None
        block, start = blocks[0], starts[0]
        alike = sorted(start.factors) == sorted((*block.factors, self.start))
        rest = _shortened(term for term in terms if term is not block and term is not start)
        others = {name for term in rest.terms for name in term.factors}
        if not alike or block.axis is not None or (block.sign, start.sign) != (1, 1):
            return None
        is_fixed = all(self.is_fixed(cst.parse_expression(f)) for f in {*others, *block.factors})
        return RowPlace(block.factors, rest) if is_fixed else None

    def is_element(self, node: cst.BaseExpression) -> bool:
        """Tell whether each element depends on its own column, and on what all trips share.

        The expression is over names from outside the loop and the loop's variable.
        """
        return self._is_element(node, frozenset())

    def _is_element(self, node: cst.BaseExpression, shared: frozenset[str]) -> bool:
        if self.is_fixed(node) or code_of(node) in shared or self.place(node) is not None:
            return True
        if isinstance(node, (cst.BinaryOperation, cst.BooleanOperation)):
            return self._are_elements(shared, node.left, node.right)
        if isinstance(node, cst.Comparison):
            sides = [target.comparator for target in node.comparisons]
            return self._are_elements(shared, node.left, *sides)
        if isinstance(node, cst.UnaryOperation):
            return self._is_element(node.expression, shared)
        return isinstance(node, cst.Call) and self._is_call_of_elements(node, shared)

    def _are_elements(self, shared: frozenset[str], *nodes: cst.BaseExpression) -> bool:
        return all(self._is_element(node, shared) for node in nodes)

    def _is_call_of_elements(self, call: cst.Call, shared: frozenset[str]) -> bool:
        name, args = called_name(call), call_args(call)
        if name in _FILLS:
            shape = argument_of(call, 0, "shape")
            own = code_of(shape).strip("[](),") if shape is not None else ""
            return own == self.block and self._are_elements(
                shared, *(arg for arg in args if arg is not shape)
            )
        if (inner := converted_value(call)) is not None:
            return self._are_elements(shared, inner, *args)
        plain = name == "tl.load" or is_elementwise_call(name)
        return plain and self._are_elements(shared, *args)

    # ------------------------------------------------------------------------- what is carried

    def is_free(self, updates: Mapping[str, Carried], name: str) -> bool:
        """Tell whether what trips bring to a carried name is the same however the row is cut."""
        update = updates[name]
        element = update.element
        if element is None:
            return False
        if update.kind is CarriedKind.SUM:
            return self._is_sum(element, frozenset())
        if update.kind.is_extremum:
            call = _EXTREMA[update.kind][0]
            return self._is_reduced(element, call) or self._is_element(element, frozenset())
        leader = updates.get(update.leader)
        if leader is None or leader.element is None or not self._has_reduction(leader):
            return False
        if update.kind is CarriedKind.FOLLOWER:
            return update.is_first and self._is_index(element, leader)
        return self._is_sum(element, frozenset(self._new_values(leader)))

    def _has_reduction(self, leader: Carried) -> bool:
        """Tell whether an extremum is one number of all elements."""
        call = _EXTREMA[leader.kind][0]
        return leader.element is not None and self._is_reduced(leader.element, call)

    def is_reduction(self, node: cst.BaseExpression) -> bool:
        """Tell whether a node is the sum or an extremum of elements along the row."""
        return any(self._is_reduced(node, call) for call in JOINED)

    def _is_reduced(self, node: cst.BaseExpression, call: str) -> bool:
        """Tell whether a node is this reduction of elements along the row."""
        if called_name(node) != call or not isinstance(node, cst.Call) or not node.args:
            return False
        axis = argument_of(node, 1, "axis")
        plain = len(node.args) == 1 or (
            len(node.args) == 2 and axis is not None and code_of(axis) in ("0", "None")
        )
        return plain and self._is_element(node.args[0].value, frozenset())

    def _new_values(self, leader: Carried) -> list[str]:
        """Return the code of a leader's new value, as it may stand in another's element."""
        assert leader.element is not None
        element, codes = code_of(leader.element), []
        for call in _EXTREMA[leader.kind][2:]:
            codes += [f"{call}({leader.name}, {element})", f"{call}({element}, {leader.name})"]
        return codes

    def _is_sum(self, node: cst.BaseExpression, shared: frozenset[str]) -> bool:
        if isinstance(node, cst.BinaryOperation):
            first, second = node.left, node.right
            if isinstance(node.operator, (cst.Add, cst.Subtract)):
                both = self._is_sum(first, shared) and self._is_sum(second, shared)
                return both or self._is_element(node, shared)
            if isinstance(node.operator, cst.Multiply):
                pairs = ((first, second), (second, first))
                if any(self._is_sum(a, shared) and self.is_fixed(b) for a, b in pairs):
                    return not self.is_fixed(node)
            if isinstance(node.operator, cst.Divide) and self._is_sum(first, shared):
                return self.is_fixed(second) or self._is_element(node, shared)
        if isinstance(node, cst.Call) and called_name(node) == "tl.sum" and node.args:
            axis = argument_of(node, 1, "axis")
            is_row = axis is None or code_of(axis) in ("0", "None")
            return is_row and self._is_element(node.args[0].value, shared)
        return not self.is_fixed(node) and self._is_element(node, shared)

    def _is_index(self, node: cst.BaseExpression, leader: Carried) -> bool:
        """Tell whether a node is the first column at which a trip's extremum is."""
        assert leader.element is not None
        extremum, index, *_ = _EXTREMA[leader.kind]
        values = code_of(call_args(leader.element)[0])
        calls = [c for c in calls_within(node, index) if code_of(c.args[0].value) == values]
        if len(calls) == 1 and isinstance(node, cst.BinaryOperation):
            sides = [node.left, node.right]
            rest = [side for side in sides if not _is_same(side, calls[0])]
            plain = isinstance(node.operator, cst.Add) and len(rest) == 1
            return plain and code_of(rest[0]) == self.start
        if called_name(node) != "tl.min" or not isinstance(node, cst.Call):
            return False
        return self._is_first_column(
            node.args[0].value, {code_of(leader.element), extremum}, values
        )

    def _is_first_column(self, node: cst.BaseExpression, leader: set[str], values: str) -> bool:
        """Tell whether a node is ``where(x == max(x), columns, fixed)``."""
        if called_name(node) != "tl.where" or not isinstance(node, cst.Call):
            return False
        test, columns, other = call_args(node)[:3]
        place = self.place(columns)
        if place is None or place.stride or place.rest.key or not self.is_fixed(other):
            return False
        sides = set(map(code_of, compared_sides(test, "==") or ()))
        return values in sides and bool(sides & leader)


def with_block_size(node: Node, block: str, size: str) -> Node:
    """Return code whose blocks of one size, ranges and fills, have another."""
    ends: list[cst.CSTNode] = []
    for call in nodes_within(node):
        if called_name(call) in (*_FILLS, "tl.arange") and isinstance(call, cst.Call):
            is_range = called_name(call) == "tl.arange"
            length = argument_of(call, int(is_range), "end" if is_range else "shape")
            inside = [] if length is None else nodes_within(length)
            ends += [n for n in inside if isinstance(n, cst.Name) and n.value == block]
    return replace_each(node, [(end, cst.parse_expression(size)) for end in ends])


def _shortened(terms: Iterable[Term]) -> Sum:
    """Return a sum of terms without those that cancel."""
    kept: list[Term] = []
    for term in terms:
        key = (sorted(term.factors), term.block, -term.sign)
        other = next((t for t in kept if (sorted(t.factors), t.block, t.sign) == key), None)
        if other is None:
            kept.append(term)
        else:
            kept.remove(other)
    return Sum(tuple(kept))


def _is_same(node: cst.CSTNode, other: cst.CSTNode) -> bool:
    return code_of(node) == code_of(other)
