"""Loops along a row, as far as what they compute is the same however the row is cut."""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping
from dataclasses import dataclass, replace

import libcst as cst

from solkit.tuner.proposers.rewriter._carried import Carried, CarriedKind, carried_by
from solkit.tuner.proposers.rewriter._memory import MASK_PLACES, PLAIN_WRITES, WRITES, mask_of
from solkit.tuner.proposers.rewriter._nodes import (
    Body,
    Loop,
    Swap,
    assigned_names,
    called_name,
    calls_within,
    expression_statement,
    names_read_first,
    names_within,
    nodes_within,
    parenthesized,
    render_code,
    replace_each,
    single_assignment,
    statements_of,
    substitute_names,
    with_body,
)
from solkit.tuner.proposers.rewriter._operations import compared_sides, conjuncts
from solkit.tuner.proposers.rewriter._parse import Launch
from solkit.tuner.proposers.rewriter._places import OtherFormError, Scope, Sum, Term
from solkit.tuner.proposers.rewriter._row_elements import RowElements, code_of
from solkit.tuner.proposers.rewriter._row_fills import Fill, RowFills
from solkit.tuner.proposers.rewriter._values import as_blocked_loop, reads_other_trips

_PLAIN = (CarriedKind.SUM, CarriedKind.MAXIMUM, CarriedKind.MINIMUM)
_KINDS = (*_PLAIN, CarriedKind.FOLLOWER, CarriedKind.RESCALED)


@dataclass(frozen=True)
class Access:
    """A load or a store along the row.

    Attributes:
        call: the node in the loop's body.
        base: the parameter that points to the tensor.
        row: where the row begins, in elements of the tensor.
    """

    call: cst.Call
    base: str
    row: Sum


@dataclass(frozen=True)
class RowLoop:
    """A loop along a row that may be cut anywhere.

    Attributes:
        loop: the loop, whose variable is the first column of a trip.
        block: the compile-time constant that is its step.
        bound: the code that the columns are compared with.
        comparisons: of the columns with that, in the loop's body.
        accesses: those of contiguous elements.
        is_blocked: whether it carries blocks.
    """

    loop: Loop
    block: str
    bound: str
    comparisons: tuple[cst.Comparison, ...]
    accesses: tuple[Access, ...]
    is_blocked: bool

    @property
    def low(self) -> str:
        """Code of the first column."""
        return render_code(self.loop.start)


def _counted_by_columns(loop: Loop, scope: Scope) -> tuple[Loop, str] | None:
    """Return the loop over first columns, and its block; ``None`` for other loops."""
    step = render_code(loop.step)
    if step in scope.function.constants:
        return loop, step
    blocked = as_blocked_loop(loop, scope.function)
    if blocked is None or not blocked.counts:
        return None
    products = {f"{loop.name} * {blocked.block}", f"{blocked.block} * {loop.name}"}
    pairs: list[Swap] = [
        (node, cst.Name(loop.name))
        for node in nodes_within(loop.node)
        if isinstance(node, cst.BinaryOperation) and code_of(node) in products
    ]
    others = sum(isinstance(n, cst.Name) and n.value == loop.name for n in nodes_within(*loop.body))
    if others != len(pairs):
        return None
    node = replace_each(loop.node, pairs)
    step_node = cst.Name(blocked.block)
    body = tuple(statements_of(node))
    return Loop(node, loop.name, loop.start, blocked.bound, step_node, body), blocked.block


def without_running(loop: Loop, outside: Scope) -> Loop | None:
    """Return the loop whose pointers are sums with its variable; ``None`` if one is used later."""
    inside = outside.within(loop.node)
    moved = {n for n in assigned_names(*loop.body) if n in inside.values}
    body: list[cst.BaseStatement] = []
    gone: set[str] = set()
    for statement in loop.body:
        binding = single_assignment(statement)
        if binding is not None and binding.target in moved and binding.operator:
            gone.add(binding.target)
        elif names_within(statement) & gone:
            return None
        else:
            body.append(statement)
    if not moved <= gone:
        return None
    lanes = {n for n in names_within(*body) if n in inside.values and n not in inside.scalars}
    values = {name: inside.values[name] for name in {*lanes, *moved}}
    for _ in range(len(inside.values)):
        if not (names := {n for v in values.values() for n in names_within(v)} & _blocks(inside)):
            break
        swaps = {name: inside.values[name] for name in names}
        values = {name: substitute_names(value, swaps) for name, value in values.items()}
    body = [substitute_names(statement, values) for statement in body]
    return replace(loop, node=with_body(loop.node, body), body=tuple(body))


def _blocks(scope: Scope) -> set[str]:
    return {name for name in scope.values if name not in scope.scalars}


def row_loop(
    launch: Launch, loop: Loop, scope: Scope, later: Body, integers: Container[str]
) -> RowLoop | None:
    """Return a loop as one along a row; ``None`` if its results may depend on its blocks."""
    counted = _counted_by_columns(loop, scope)
    plain = None if counted is None else without_running(counted[0], scope)
    if counted is None or plain is None or names_read_first(later) & {loop.name}:
        return None
    simple = all(isinstance(statement, cst.SimpleStatementLine) for statement in plain.body)
    gone = set(assigned_names(*loop.body)) - set(assigned_names(*plain.body))
    updates = carried_by(plain.body, loop.name) if simple else None
    if updates is None or gone & names_read_first(later) or reads_other_trips(launch, plain.node):
        return None
    own = {*assigned_names(*plain.body)} - set(updates)
    if own & names_read_first(later) or any(u.kind not in _KINDS for u in updates.values()):
        return None
    return RowReader(plain, counted[1], scope, updates, later, integers).read()


class RowReader:
    """Reads a loop's statements.

    Args:
        loop: over first columns.
        block: its step.
        scope: what names mean ahead of it.
        updates: what it carries.
        later: statements that may run after it.
        integers: parameters that are known to be numbers.
    """

    def __init__(
        self,
        loop: Loop,
        block: str,
        scope: Scope,
        updates: Mapping[str, Carried],
        later: Body,
        integers: Container[str],
    ) -> None:
        self._loop, self._block, self._later = loop, block, later
        self._integers = integers
        self._updates = updates
        self._scope = scope.within(loop.node)
        varying = {loop.name, *assigned_names(*loop.body)}
        self._elements = RowElements(self._scope, loop.name, block, frozenset(varying))
        self._values: dict[str, cst.BaseExpression] = {}
        self._bounds: set[str] = set()
        self._comparisons: list[tuple[cst.Comparison, str]] = []
        self._accesses: list[Access] = []
        self._reductions: list[cst.BaseExpression] = []

    def read(self) -> RowLoop | None:
        """Return the loop; ``None`` if its results may depend on its blocks."""
        blocked = {name for name in self._updates if self._is_block(name)}
        if not all(self._elements.is_free(self._updates, name) for name in self._updates):
            return None
        if not all(self._is_reduced(name, self._updates[name].kind) for name in blocked):
            return None
        if not all(map(self.read_statement, self._loop.body)) or len(self._bounds) != 1:
            return None
        bound = self._bounds.pop()
        if not self._are_ends_neutral(bound, blocked):
            return None
        comparisons = tuple(node for node, code in self._comparisons if code == bound)
        accesses = tuple(self._accesses)
        loop, block, is_blocked = self._loop, self._block, bool(blocked)
        return RowLoop(loop, block, bound, comparisons, accesses, is_blocked)

    def _are_ends_neutral(self, bound: str, blocked: Container[str]) -> bool:
        """Tell whether lanes beyond the row's end change nothing that is summed or compared."""
        fills = RowFills(lambda node: bound in self._bounds_of(node))
        extremes = {CarriedKind.MAXIMUM: Fill.LOWEST, CarriedKind.MINIMUM: Fill.HIGHEST}
        for name, update in self._updates.items():
            if update.element is None or not fills.are_neutral(update.element):
                return False
            neutral = extremes.get(update.kind, Fill.ZERO)
            if name in blocked and fills.fill(update.element) is not neutral:
                return False
        return all(map(fills.are_neutral, self._reductions))

    def _is_block(self, name: str) -> bool:
        """Tell whether a carried name is a block, with an element for each of a trip's."""
        element = self._updates[name].element
        return element is None or self._elements.is_element(element)

    def _is_reduced(self, name: str, kind: CarriedKind) -> bool:
        """Tell whether only the sum, or the extreme, of a block's elements is read later."""
        call = kind.reduction
        uses = [
            node
            for node in nodes_within(*self._later)
            if isinstance(node, cst.Name) and node.value == name
        ]
        reduced = [
            inner.args[0].value
            for statement in self._later
            for inner in calls_within(statement, call)
            if inner.args
        ]
        return kind in _PLAIN and all(any(use is arg for arg in reduced) for use in uses)

    def _expanded(self, node: cst.BaseExpression) -> cst.BaseExpression:
        return substitute_names(node, self._values)

    def read_statement(self, statement: cst.BaseStatement) -> bool:
        """Note what a statement compares and accesses; false if that depends on the blocks."""
        binding, effect = single_assignment(statement), expression_statement(statement)
        if binding is None and (effect is None or called_name(effect) not in PLAIN_WRITES):
            return False
        for node in nodes_within(statement):
            if isinstance(node, cst.Comparison):
                self._note_comparison(node)
        if not all(map(self._note_access, calls_within(statement, *MASK_PLACES))):
            return False
        if binding is not None:
            self._values[binding.target] = parenthesized(self._expanded(binding.value))
        return (binding is None) == bool(calls_within(statement, *WRITES))

    def _note_comparison(self, node: cst.Comparison) -> None:
        """Note ``columns < size``."""
        if (sides := compared_sides(node, "<")) is None:
            return
        size = self._expanded(sides[1])
        place = self._elements.place(self._expanded(sides[0]))
        is_column = place is not None and not place.stride and not place.rest.key
        if is_column and self._elements.is_fixed(size):
            self._comparisons.append((node, code_of(size)))

    def _note_access(self, call: cst.Call) -> bool:
        pointer = self._expanded(call.args[0].value)
        values = [self._expanded(arg.value) for arg in call.args]
        name = called_name(call)
        if self._elements.is_fixed(pointer):
            return name == "tl.load" and all(map(self._elements.is_fixed, values))
        mask = mask_of(call)
        bounds = set() if mask is None else set(self._bounds_of(self._expanded(mask)))
        if not bounds or not all(map(self._elements.is_element, values)):
            return False
        place = self._elements.place(pointer)
        self._bounds |= bounds
        if place is None or place.stride:
            return name != "tl.store" or place is not None
        row = self._based(place.rest)
        if row is not None:
            self._accesses.append(Access(call, *row))
        return True

    def _bounds_of(self, mask: cst.BaseExpression) -> Iterator[str]:
        """Yield what a mask says that columns are below."""
        for part in conjuncts(mask):
            if (sides := compared_sides(part, "<")) is None:
                continue
            place = self._elements.place(sides[0])
            is_column = place is not None and not place.stride and not place.rest.key
            if is_column and self._elements.is_fixed(sides[1]):
                yield code_of(sides[1])

    def _based(self, rest: Sum) -> tuple[str, Sum] | None:
        """Return the tensor and the row's first element of a pointer without its columns."""
        pending, terms = list(rest.terms), list[Term]()
        while pending:
            term = pending.pop()
            value = self._scope.values.get(term.factors[0]) if len(term.factors) == 1 else None
            try:
                inner = () if value is None else self._scope.terms(value).terms
            except OtherFormError:  # such as an index that is loaded
                inner = ()
            pending += [replace(t, sign=t.sign * term.sign) for t in inner]
            terms += [] if inner else [term]
        pointers = [term for term in terms if self._is_pointer(term)]
        if len(pointers) != 1 or any(term.block for term in terms):
            return None
        row = sorted((t for t in terms if t is not pointers[0]), key=lambda t: (-t.sign, t.factors))
        return pointers[0].factors[0], Sum(tuple(row))

    def _is_pointer(self, term: Term) -> bool:
        name = term.factors[0] if len(term.factors) == 1 else ""
        is_number = name in self._scope.function.constants or name in self._integers
        return name in self._scope.function.params and not is_number and term.sign > 0
