"""Blocks that are part of what a kernel computes: their sizes cannot change.

A program that sums its block, and divides each of its elements by the sum, computes something else
with another block. The same holds for a scan that starts anew with each block. What a program adds
up and writes once, or adds to what others add to, is the same for all sizes.

Nor may a block change where elements follow from the number of their program, or from their place
in the block, other than through ``program * BLOCK + place``: a scale for each block, say.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

import libcst as cst

from solkit.tuner.proposers.rewriter._assignments import assignments_in
from solkit.tuner.proposers.rewriter._edit import program_axis
from solkit.tuner.proposers.rewriter._masks import lengths_of_names, lengths_within
from solkit.tuner.proposers.rewriter._nodes import (
    argument_of,
    called_name,
    calls_within,
    child_nodes,
    integer_literal,
    names_within,
    render_code,
    substitute_names,
    walk_statements,
)
from solkit.tuner.proposers.rewriter._operations import (
    comparison_parts,
    is_operation,
    without_conversions,
)
from solkit.tuner.proposers.rewriter._parse import JitFunction
from solkit.tuner.proposers.rewriter._shapes import Shape, operand_shapes
from solkit.tuner.proposers.rewriter._values import whole_values

_TO_ALL = ("tl.sum", "tl.max", "tl.min", "tl.argmax", "tl.argmin", "tl.reduce", "tl.xor_sum")
_ALONG = ("tl.cumsum", "tl.cumprod", "tl.associative_scan", "tl.sort", "tl.flip")
_ROUNDS = 4  # of names that loops hand on


def blocks_with_meaning(function: JitFunction) -> frozenset[str]:
    """Return lengths along which a function reduces what it then stores along the same length."""
    shapes = operand_shapes(function, *_TO_ALL, *_ALONG, in_stores=True)
    lengths = lengths_of_names(function)
    blocks: set[str] = set()
    for call in calls_within(function.node, *_TO_ALL, *_ALONG):
        blocks |= _reduced_lengths(call, shapes.get(id(call), ()), lengths)
    return frozenset(block for block in blocks if _is_stored_along(function, block, shapes))


def _reduced_lengths(call: cst.Call, shape: Shape, lengths: Mapping[str, set[str]]) -> set[str]:
    """Return the lengths that a call reduces; all of its operand if its axis is not known."""
    if not call.args:
        return set()
    name, operand = called_name(call), call.args[0].value
    own = set(shape) if shape else lengths_within(operand, lengths)
    axis = argument_of(call, 1, "axis") or argument_of(call, 1, "dim")
    place = None if axis is None else integer_literal(axis)
    if place is None and name in _ALONG and len(shape) > 1:
        place = -1 if name in ("tl.sort", "tl.flip") else 0
    if place is not None and shape and -len(shape) <= place < len(shape):
        return {shape[place]}
    return own if place is None or len(own) == 1 else set()


def _is_stored_along(function: JitFunction, block: str, shapes: dict[int, Shape]) -> bool:
    """Tell whether something is stored along a block that follows from what was reduced of it."""
    lengths = lengths_of_names(function)
    marked: set[str] = set()

    def follows(node: cst.BaseExpression) -> bool:
        return bool(names_within(node) & marked) or any(
            block in _reduced_lengths(call, shapes.get(id(call), ()), lengths)
            for call in calls_within(node, *_TO_ALL, *_ALONG)
        )

    for _ in range(_ROUNDS):
        for binding in assignments_in(walk_statements(function.body)):
            if follows(binding.value):
                marked.add(binding.target)
    for call in calls_within(function.node, "tl.store"):
        value = argument_of(call, 1, "value")
        is_along = bool(call.args) and block in lengths_within(call.args[0].value, lengths)
        if value is not None and is_along and follows(value):
            return True
    return False


# ------------------------------------------------------------------------------- numbers of blocks


def numbers_its_blocks(function: JitFunction, block: str, axis: int) -> bool:
    """Tell whether elements follow from a program's number or place other than by their sum."""
    values = whole_values(function.body)
    lengths = lengths_of_names(function)
    parts: list[cst.BaseExpression | None] = []
    for call in calls_within(function.node, "tl.load"):
        parts += [argument_of(call, 0, "pointer"), argument_of(call, 1, "mask")]
    for call in calls_within(function.node, "tl.store"):
        if call.args and block in lengths_within(call.args[0].value, lengths):
            parts += [
                argument_of(call, place, ("pointer", "value", "mask")[place]) for place in range(3)
            ]
    wholes = [substitute_names(part, values) for part in parts if part is not None]
    loads = [call.args[0].value for call in calls_within(function.node, "tl.load") if call.args]
    if any(_is_of_block(substitute_names(place, values), block, axis) for place in loads):
        return True
    return any(_has_bare_number(whole, block, axis) for whole in wholes)


def starts_block(
    place: cst.BaseExpression, block: str, starts: Collection[str], counts: Collection[str]
) -> bool:
    """Tell whether an index is one for all of a block, and follows from the block's first element.

    Args:
        place: the index.
        block: the block's length.
        starts: variables of loops that step by the block.
        counts: those of other loops, which may count blocks.
    """
    if block in names_within(*calls_within(place, "tl.arange")):
        return False  # each element, or each run of some, has its own
    for factors in map(_factors, _terms(place)):
        names = names_within(*factors)
        is_number = names & set(counts) or any(calls_within(f, "tl.program_id") for f in factors)
        if names & set(starts) or (is_number and block in map(render_code, factors)):
            return True
    return False


def _is_of_block(place: cst.BaseExpression, block: str, axis: int) -> bool:
    """Tell whether a place is one for all of a block's elements."""
    ranges = (render_code(call.args[-1].value) for call in calls_within(place, "tl.arange"))
    numbers = map(program_axis, calls_within(place, "tl.program_id"))
    is_pointer = not calls_within(place, "tl.make_block_ptr")
    return is_pointer and axis in numbers and block not in ranges


def _has_bare_number(node: cst.CSTNode, block: str, axis: int, in_sum: bool = False) -> bool:
    """Tell whether a program's number has no block as a factor, or a place is part of no sum."""
    node = without_conversions(node) if isinstance(node, cst.BaseExpression) else node
    if is_operation(node, *_SUMS):
        return any(_has_bare_number(term, block, axis, True) for term in _terms(node))
    if (parts := comparison_parts(node)) is not None:
        terms = [*_terms(parts[0]), *_terms(parts[2])]
        is_counted = any(block in map(render_code, _factors(term)) for term in terms)
        return any(_has_bare_number(term, block, axis, is_counted) for term in terms)
    if is_operation(node, cst.Multiply):
        factors = _factors(node)
        if block in map(render_code, factors):
            factors = [factor for factor in factors if called_name(factor) != "tl.program_id"]
        return any(_has_bare_number(factor, block, axis, in_sum) for factor in factors)
    if isinstance(node, cst.Subscript):
        return _has_bare_number(node.value, block, axis, in_sum)
    if isinstance(node, cst.Call) and called_name(node) == "tl.program_id":
        return program_axis(node) == axis
    if isinstance(node, cst.Call) and called_name(node) == "tl.arange":
        return not in_sum and render_code(node.args[-1].value) == block
    return any(_has_bare_number(child, block, axis) for child in child_nodes(node))


_SUMS = (cst.Add, cst.Subtract)


def _terms(node: cst.BaseExpression) -> list[cst.BaseExpression]:
    """Return the terms of a sum, spread along other axes or not."""
    node = without_conversions(node)
    if is_operation(node, *_SUMS):
        return [*_terms(node.left), *_terms(node.right)]
    if isinstance(node, cst.Subscript):
        return _terms(node.value)
    return [node]


def _factors(node: cst.BaseExpression) -> list[cst.BaseExpression]:
    node = without_conversions(node)
    if is_operation(node, cst.Multiply):
        return [*_factors(node.left), *_factors(node.right)]
    return [node]
