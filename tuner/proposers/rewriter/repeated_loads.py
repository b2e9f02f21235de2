"""Loads at quotients of an index read each element once, and repeat it in registers.

A packed byte serves two weights and a scale serves a group, so ``tl.load(packed + k // 2 * N + n)``
reads each byte twice. The run of indices with one quotient gets one load at its first index.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial

import libcst as cst

from solkit.tuner.proposers.rewriter._mutation import Facts, Variant
from solkit.tuner.proposers.rewriter._nodes import (
    Body,
    Swap,
    argument_of,
    called_name,
    calls_within,
    count_uses,
    expand_names,
    free_name,
    nodes_within,
    parse_expression,
    parse_statement,
    plain_code,
    render_code,
    replace_each,
    statements_of,
    substitute_names,
    with_body,
)
from solkit.tuner.proposers.rewriter._operations import compared_sides, is_operation
from solkit.tuner.proposers.rewriter._parse import KernelText, Launch
from solkit.tuner.proposers.rewriter._places import OtherFormError, Scope, Sum, tile_accesses
from solkit.tuner.proposers.rewriter._shapes import Shape, shape_of
from solkit.tuner.proposers.rewriter._variants import launch_variants


class RepeatedLoads:
    """A tile whose elements repeat along an axis is loaded without repeats, then spread.

    Applies to loads that depend on the indices along one axis of a block only through their
    quotient by a power of two, where the block begins at a multiple of its size. Their masks may
    depend on the indices themselves: what they leave out gets the fill.
    """

    kind = "repeated loads"
    helps = ("extra traffic", "instructions", "latency")

    def variants(self, text: KernelText, facts: Facts) -> Iterator[Variant]:
        """See `Rewrite.variants`."""
        intent = (
            "{} loads elements as often as indices share them; once for each run of indices is "
            "enough"
        )
        factors = ("extra traffic", "instructions")
        change = partial(_with_single_loads, facts=facts)
        return launch_variants(text, facts, change, intent, *factors)


@dataclass(frozen=True)
class _Repeat:
    """A load whose elements repeat.

    Attributes:
        call: the load.
        pointer, mask: of it, over a name for the range of the index.
        block: how many elements the index has.
        divisor: of the index, as code.
        axis: of the tile along which the index varies.
        shape: of the tile.
    """

    call: cst.Call
    pointer: cst.BaseExpression
    mask: cst.BaseExpression | None
    block: str
    divisor: str
    axis: int
    shape: Shape


_RANGE = "_range_"
"""Stands for the range of indices in pointers and masks."""


def _with_single_loads(launch: Launch, facts: Facts) -> cst.FunctionDef | None:
    """Return the function of a launch with repeats in registers; ``None`` if there are none."""
    constants = facts.constants(launch)
    repeats = [
        repeat
        for call, scope in tile_accesses(launch.function)
        if called_name(call) == "tl.load" and (repeat := _repeat_of(call, scope, constants))
    ]
    if not repeats:
        return None
    taken = set(launch.function.names)
    body = _spread_loads(launch.function.body, {id(r.call): r for r in repeats}, taken)
    return with_body(launch.function.node, body)


def _repeat_of(call: cst.Call, scope: Scope, constants: Mapping[str, int]) -> _Repeat | None:
    """Return a load as one with repeats if its place follows from an index's quotient alone."""
    pointer, mask = call.args[0].value, argument_of(call, 1, "mask")
    quotient = _first_quotient(_expanded(pointer, scope))
    block = None if quotient is None else _aligned_block(quotient.left, scope)
    if quotient is None or block is None:
        return None
    divisor = render_code(quotient.right)
    is_fixed = divisor.isdigit() or divisor in scope.function.constants
    size = int(divisor) if divisor.isdigit() else constants.get(divisor, 0)
    if not is_fixed or size < 2 or size & (size - 1):
        return None
    shape = shape_of(_expanded(pointer, scope))
    place, own = _with_range(pointer, block, scope), None
    if mask is not None:
        own = _with_range(mask, block, scope)
    is_run = _is_quotient_only(place, quotient.left, divisor, block) and shape.count(block) == 1
    parts = (place, *([] if own is None else [own]))
    if not is_run or any(calls_within(part, "tl.load") for part in parts):
        return None
    if own is not None and not _is_bounded_above(own):
        return None
    return _Repeat(call, place, own, block, divisor, shape.index(block), shape)


def _first_quotient(pointer: cst.BaseExpression) -> cst.BinaryOperation | None:
    """Return the first quotient of a block's indices in a pointer."""
    for node in nodes_within(pointer):
        if not isinstance(node, cst.BinaryOperation):
            continue
        is_quotient = isinstance(node.operator, cst.FloorDivide)
        if is_quotient and len(calls_within(node.left, "tl.arange")) == 1:
            return node
    return None


def _expanded(node: cst.BaseExpression, scope: Scope, code: str = "") -> cst.BaseExpression:
    """Return an expression without names of blocks; with a code, without those that need it."""

    def value_of(name: str) -> cst.BaseExpression | None:
        value = None if name in scope.scalars else scope.values.get(name)
        is_needed = value is not None and (not code or code in plain_code(_expanded(value, scope)))
        return value if is_needed else None

    return expand_names(node, value_of)


def _aligned_block(node: cst.BaseExpression, scope: Scope) -> str | None:
    """Return the size of a block of indices that begins at a multiple of it; else ``None``."""
    try:
        total = scope.terms(node)
        start = Sum(tuple(term for term in total.terms if not term.block))
    except OtherFormError:
        return None
    ranges = [term for term in total.terms if term.block]
    if len(ranges) != 1 or ranges[0].factors or ranges[0].sign < 0:
        return None
    block = ranges[0].block
    is_aligned = block in scope.function.constants and scope.is_multiple(start, block)
    return block if is_aligned else None


def _with_range(node: cst.BaseExpression, block: str, scope: Scope) -> cst.BaseExpression:
    """Return an expression with a name for a block's range."""
    code = f"tl.arange(0,{block})"
    node = _expanded(node, scope, code)
    pairs: list[Swap] = [
        (call, cst.Name(_RANGE))
        for call in calls_within(node, "tl.arange")
        if plain_code(call) == code
    ]
    return replace_each(node, pairs)


def _is_quotient_only(
    pointer: cst.BaseExpression, index: cst.BaseExpression, divisor: str, block: str
) -> bool:
    """Tell whether a pointer needs a range only in quotients of one index."""
    code = plain_code(index).replace(f"tl.arange(0,{block})", _RANGE)
    quotients = [
        node
        for node in nodes_within(pointer)
        if is_operation(node, cst.FloorDivide)
        and plain_code(node.left) == code
        and render_code(node.right) == divisor
    ]
    return bool(quotients) and len(quotients) == count_uses(pointer, _RANGE)


def _is_bounded_above(mask: cst.BaseExpression) -> bool:
    """Tell whether a mask that holds for an index holds for all before it."""
    if is_operation(mask, cst.BitAnd):
        return _is_bounded_above(mask.left) and _is_bounded_above(mask.right)
    if isinstance(mask, cst.Subscript):
        return _is_bounded_above(mask.value)
    if not count_uses(mask, _RANGE):
        return True
    sides = compared_sides(mask, "<", "<=")
    return sides is not None and _grows(sides[0]) and not count_uses(sides[1], _RANGE)


def _grows(node: cst.BaseExpression) -> bool:
    """Tell whether an expression is a range plus something else."""
    if isinstance(node, cst.Subscript):
        return _grows(node.value)
    if is_operation(node, cst.Add):
        sides = [side for side in (node.left, node.right) if count_uses(side, _RANGE)]
        return len(sides) == 1 and _grows(sides[0])
    return isinstance(node, cst.Name) and node.value == _RANGE


# ------------------------------------------------------------------------------- writing it


def _spread_loads(
    body: Body, repeats: Mapping[int, _Repeat], taken: set[str]
) -> list[cst.BaseStatement]:
    """Return statements in which loads with repeats are loads of runs, spread."""
    statements: list[cst.BaseStatement] = []
    for statement in body:
        if inner := statements_of(statement):
            statements.append(with_body(statement, _spread_loads(inner, repeats, taken)))
            continue
        pairs: list[Swap] = []
        for call in calls_within(statement, "tl.load"):
            if id(call) in repeats:
                ahead, value = _spread_load(repeats[id(call)], taken)
                statements += ahead
                pairs.append((call, value))
        statements.append(replace_each(statement, pairs) if pairs else statement)
    return statements


def _spread_load(
    repeat: _Repeat, taken: set[str]
) -> tuple[list[cst.BaseStatement], cst.BaseExpression]:
    """Return statements that load runs, and the tile that they are spread to."""
    firsts, runs = free_name("firsts", taken), free_name("runs", taken)
    length = f"min({repeat.block}, {repeat.divisor})"
    head = f"{firsts} = tl.arange(0, {repeat.block} // {length}) * {length}"
    load = f"{runs} = {render_code(_load_at(repeat, firsts))}"
    spread = [":" for _ in repeat.shape]
    spread.insert(repeat.axis + 1, "None")
    sizes = list(repeat.shape)
    sizes[repeat.axis : repeat.axis + 1] = [f"{repeat.block} // {length}", length]
    wide, shape = ", ".join(sizes), ", ".join(repeat.shape)
    tile = f"tl.reshape(tl.broadcast_to({runs}[{', '.join(spread)}], ({wide})), ({shape},))"
    mask, fill = argument_of(repeat.call, 1, "mask"), argument_of(repeat.call, 2, "other")
    if mask is not None and fill is not None and count_uses(repeat.mask or mask, _RANGE):
        tile = f"tl.where({render_code(mask)}, {tile}, {render_code(fill)})"
    return [parse_statement(head), parse_statement(load)], parse_expression(tile)


def _load_at(repeat: _Repeat, firsts: str) -> cst.Call:
    """Return the load at the first index of each run."""
    name = {_RANGE: cst.Name(firsts)}
    pairs = [(repeat.call.args[0].value, substitute_names(repeat.pointer, name))]
    mask = argument_of(repeat.call, 1, "mask")
    if mask is not None and repeat.mask is not None:
        pairs.append((mask, substitute_names(repeat.mask, name)))
    return replace_each(repeat.call, pairs)
