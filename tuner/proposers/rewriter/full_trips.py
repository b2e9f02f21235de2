"""Trips that no mask cuts run without comparisons, ahead of the others.

A causal attention compares each key with each query, though only the last trips meet the diagonal.
The loop becomes two: one up to the first column that a mask may leave out, in which its comparisons
are true, and one over the rest. Trips keep their order, so whatever they compute is the same.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator
from dataclasses import dataclass, field

import libcst as cst

from solkit.tuner.proposers.rewriter._assignments import straight_values
from solkit.tuner.proposers.rewriter._columns import (
    Blocks,
    Columns,
    column_bound,
    expanded_row,
    is_index_sum,
    over_range,
    smallest_row,
    without_axes,
)
from solkit.tuner.proposers.rewriter._distinct_names import without_unread
from solkit.tuner.proposers.rewriter._masks import without_mask
from solkit.tuner.proposers.rewriter._memory import mask_of
from solkit.tuner.proposers.rewriter._mutation import Facts, Variant
from solkit.tuner.proposers.rewriter._nodes import (
    Loop,
    Swap,
    argument_of,
    assigned_names,
    called_name,
    child_nodes,
    free_name,
    names_read_first,
    names_within,
    nodes_within,
    parenthesized,
    parse_statement,
    range_loop,
    render_code,
    replace_each,
    single_assignment,
    statements_of,
    walk_statements,
    with_body,
)
from solkit.tuner.proposers.rewriter._operations import both_orders, call_args
from solkit.tuner.proposers.rewriter._parse import JitFunction, KernelText
from solkit.tuner.proposers.rewriter._shapes import Shapes
from solkit.tuner.proposers.rewriter._values import as_blocked_loop
from solkit.tuner.proposers.rewriter._variants import function_variants


class FullTrips:
    """Trips that no mask cuts run without comparisons; the rest of the loop follows.

    Applies to loops over blocks with a mask that compares columns with rows, if it is the same in
    all columns ahead of one that is known before the loop.
    """

    kind = "full trips"
    helps = ("instructions", "extra work", "latency")

    def variants(self, text: KernelText, facts: Facts) -> Iterator[Variant]:
        """See `Rewrite.variants`."""
        intent = "Most trips of the loop in {} meet no mask, and need not compare"
        factors = ("instructions", "extra work")
        return function_variants(text, facts, _with_full_trips, intent, *factors)


def _with_full_trips(function: JitFunction) -> cst.FunctionDef | None:
    """Return a function whose loops are two where masks allow; ``None`` if none are."""
    body, taken = list(function.body), set(function.names)
    for place, statement in reversed(list(enumerate(function.body))):
        loop = range_loop(statement)
        full = None if loop is None else _full_trips(loop, function, place)
        if loop is None or full is None or loop.name in names_read_first(body[place + 1 :]):
            continue
        name = free_name("full", taken)
        start, stop, step = map(render_code, (loop.start, loop.stop, loop.step))
        first, rest = (
            over_range(loop, begin, end, step) for begin, end in ((start, name), (name, stop))
        )
        ahead = parse_statement(
            f"{name} = tl.maximum(tl.minimum({full[0]}, {stop}) // {step} * {step}, 0)"
        )
        body[place : place + 1] = [ahead, with_body(first, full[1]), rest]
    if len(body) == len(function.body):
        return None
    return without_unread(with_body(function.node, body), function)


def _full_trips(
    loop: Loop, function: JitFunction, place: int
) -> tuple[str, list[cst.BaseStatement]] | None:
    """Return the column from which on masks count, and the trip as it is ahead of that."""
    blocked = as_blocked_loop(loop, function)
    if blocked is None or blocked.counts:
        return None
    before, moving = function.body[:place], {loop.name, *assigned_names(*loop.body)}
    own, values = straight_values(before), straight_values(loop.body)
    blocks, columns = Blocks(own, function), Columns(loop, values, own, function)
    ends, truths, cuts_rows = list[str](), dict[int, bool](), False
    for node in (n for n in nodes_within(*loop.body) if isinstance(n, cst.Comparison)):
        bound = column_bound(node, columns, values)
        row = None if bound is None or bound.width != "0" else expanded_row(bound.row, values)
        if bound is None or row is None or not is_index_sum(row) or names_within(row) & moving:
            continue
        if end := smallest_row(row, blocks):
            ends.append(f"{end}{bound.beyond}")
            truths[id(node)] = bound.is_below
            cuts_rows |= blocks.has(row)
    trip = _FullTrip(truths)
    for statement in walk_statements(before):
        trip.follow(statement, statement)
    body = [trip.without_masks(statement) for statement in loop.body]
    if not cuts_rows or trip.is_cut or not trip.is_changed:
        return None
    code, *others = dict.fromkeys(ends)
    for other in others:
        code = f"tl.minimum({code}, {other})"
    return code, body


@dataclass
class _FullTrip:
    """A trip in which some comparisons are known.

    Attributes:
        comparisons: whether they are true, by their ids.
        is_changed: whether a mask went.
        is_cut: whether something may have another shape without a mask.
    """

    comparisons: dict[int, bool]
    is_changed: bool = False
    is_cut: bool = False
    _names: dict[str, bool] = field(default_factory=dict)
    _shapes: Shapes = field(default_factory=Shapes)
    _plain_shapes: Shapes = field(default_factory=Shapes)

    def without_masks(self, statement: cst.BaseStatement) -> cst.BaseStatement:
        """Return a statement without masks that are known; statements come in their order."""
        binding = single_assignment(statement)
        value = None if binding is None else self._truth(binding.value)
        for name in assigned_names(statement):
            self._names.pop(name, None)
        if binding is not None and value is not None:
            self._names[binding.target] = value
            result = statement
        else:
            for inner in walk_statements(statements_of(statement)):
                self.follow(inner, inner)
            result = self._without_masks(statement)
        for old, new in zip(*map(walk_statements, ([statement], [result])), strict=True):
            self.follow(old, new)
        return result

    def follow(self, statement: cst.BaseStatement, plain: cst.BaseStatement) -> None:
        """Add the shapes of a statement, and of what it is without masks."""
        self._shapes.follow(statement)
        self._plain_shapes.follow(plain)

    def _without_masks(self, statement: cst.BaseStatement) -> cst.BaseStatement:
        binding, spread = single_assignment(statement), set[int]()
        if binding is not None and (binding.operator == "+=" or _is_combined(binding.operand)):
            spread = set(map(id, _conjuncts(binding.operand)))
        pairs = list(self._plain_parts(statement, spread))
        self.is_changed |= bool(pairs)
        return replace_each(statement, pairs) if pairs else statement

    def _plain_parts(self, node: cst.CSTNode, spread: Container[int] = ()) -> Iterator[Swap]:
        """Yield the outermost parts that have a mask, each with what it is without.

        Args:
            node: the parts are in it.
            spread: identities of parts that may have fewer elements: others give the shape.
        """
        plain = self._plain(node) if isinstance(node, cst.BaseExpression) else node
        if isinstance(node, cst.Name) or plain is not node:
            self.is_cut |= id(node) not in spread and not self._has_shape_of(node, plain)
        if plain is not node:
            yield node, plain
            return
        mask = _mask_of(node)
        if mask is not None:
            spread = set(map(id, _conjuncts(mask)))
        within = [node.value] if isinstance(node, cst.Arg) else child_nodes(node)
        pairs = [pair for child in within for pair in self._plain_parts(child, spread)]
        if mask is not None:
            self.is_cut |= not self._has_shape_of(node, replace_each(node, pairs))
        yield from pairs

    def _has_shape_of(self, node: cst.CSTNode, plain: cst.CSTNode) -> bool:
        if not isinstance(node, cst.BaseExpression) or not isinstance(plain, cst.BaseExpression):
            return True
        return self._shapes.shape_of(node) == self._plain_shapes.shape_of(plain)

    def _plain(self, node: cst.BaseExpression) -> cst.BaseExpression:
        """Return a choice, a load or a combined mask without what is known in it."""
        for operator, neutral in _NEUTRAL.items():
            for one, other in both_orders(node, operator):
                if self._truth(one) is neutral and self._truth(other) is None:
                    return parenthesized(self._inner(other, _conjuncts(other)))
        if not isinstance(node, cst.Call):
            return node
        if called_name(node) == "tl.where" and len(node.args) == _CHOICE:
            test, one, two = call_args(node)
            truth = self._truth(test)
            if truth is None:
                return node
            return parenthesized(self._inner(one if truth else two))
        mask = argument_of(node, 1, "mask")
        if called_name(node) != "tl.load" or mask is None or self._truth(mask) is not True:
            return node
        return without_mask(node)

    def _inner(
        self, node: cst.BaseExpression, spread: Iterable[cst.BaseExpression] = ()
    ) -> cst.BaseExpression:
        pairs = list(self._plain_parts(node, set(map(id, spread))))
        whole = next((new for old, new in pairs if old is node), None)
        if isinstance(whole, cst.BaseExpression):
            return whole
        return replace_each(node, pairs) if pairs else node

    def _truth(self, node: cst.BaseExpression) -> bool | None:
        """Return whether a mask is true everywhere, or false; ``None`` if it is neither."""
        node = without_axes(node)
        if isinstance(node, cst.Name):
            return self._names.get(node.value)
        if isinstance(node, cst.BinaryOperation) and type(node.operator) in _NEUTRAL:
            sides = {self._truth(node.left), self._truth(node.right)}
            neutral = _NEUTRAL[type(node.operator)]
            if (not neutral) in sides:
                return not neutral
            return neutral if sides == {neutral} else None
        return self.comparisons.get(id(node))


def _mask_of(node: cst.CSTNode) -> cst.BaseExpression | None:
    """Return the mask of a choice, a load or a store."""
    return argument_of(node, 0) if called_name(node) == "tl.where" else mask_of(node)


def _is_combined(mask: cst.BaseExpression) -> bool:
    return isinstance(mask, cst.BinaryOperation) and type(mask.operator) in _NEUTRAL


def _conjuncts(mask: cst.BaseExpression) -> Iterator[cst.BaseExpression]:
    """Yield a mask and the masks that it is made of."""
    yield mask
    if isinstance(mask, cst.BinaryOperation) and _is_combined(mask):
        yield from _conjuncts(mask.left)
        yield from _conjuncts(mask.right)


_CHOICE = 3
_NEUTRAL: dict[type[cst.BaseBinaryOp], bool] = {cst.BitAnd: True, cst.BitOr: False}
"""Value of one side that leaves the other one."""
