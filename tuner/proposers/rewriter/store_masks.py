"""Loads of elements that no store writes are masked like the stores.

Some kernels mask what they store and load from wherever the elements beyond the end would be. That
goes well as long as the block divides what there is. A larger block then reads outside of its
tensors, though nothing of it is kept. In a function that is elementwise, a load may have the mask
of the stores besides its own: no other element depends on what it leaves out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

import libcst as cst

from solkit.tuner.proposers.rewriter._assignments import values_of
from solkit.tuner.proposers.rewriter._lift_expressions import is_elementwise_call
from solkit.tuner.proposers.rewriter._masks import with_load_mask
from solkit.tuner.proposers.rewriter._nodes import (
    Body,
    argument_of,
    assigned_names,
    called_name,
    calls_within,
    compact_code,
    names_within,
    nodes_within,
    parenthesized,
    plain_code,
    render_code,
    replace_each,
    single_assignment,
    statements_of,
    walk_statements,
)
from solkit.tuner.proposers.rewriter._operations import is_operation

_PLAIN = (
    *("tl.load", "tl.store", "tl.arange", "tl.program_id", "tl.num_programs", "tl.cdiv", "float"),
    *("tl.zeros", "tl.full", "range", "tl.range", "tl.static_range", "tl.multiple_of"),
    "tl.max_contiguous",
)
_OTHER_SHAPES = (cst.Subscript, cst.Tuple, cst.Lambda, cst.While, cst.Return)


def with_masks_of_stores(node: cst.FunctionDef) -> cst.FunctionDef:
    """Return a function whose loads leave out what its stores do; the same if it is no such one."""
    body = statements_of(node)
    mask = _mask_of_stores(body)
    if mask is None or not _is_elementwise(body):
        return node
    reader = _Reader(body, mask)
    pairs = [
        (call, _masked(call, mask))
        for place in range(reader.first_place, len(body))
        for call in calls_within(body[place], "tl.load")
        if reader.lacks_mask(call)
    ]
    return replace_each(node, pairs) if pairs else node


def _mask_of_stores(body: Body) -> cst.BaseExpression | None:
    stores = [call for s in body for call in calls_within(s, "tl.store")]
    masks = [argument_of(call, 2, "mask") for call in stores]
    kept = [mask for mask in masks if mask is not None]
    is_one = len(kept) == len(stores) > 0 and len({plain_code(mask) for mask in kept}) == 1
    return kept[0] if is_one else None


def _is_elementwise(body: Body) -> bool:
    """Tell whether all blocks have one axis and one length, and no element needs another's."""
    calls = [call for statement in body for call in calls_within(statement)]
    lengths = {compact_code(c.args[-1].value) for c in calls if called_name(c) == "tl.arange"}
    shaped = [arg for c in calls if called_name(c) in ("tl.zeros", "tl.full") for arg in c.args]
    within = {id(inner) for arg in shaped for inner in nodes_within(arg)}
    return (
        len(lengths) == 1
        and all(_is_plain_call(call) for call in calls)
        and not any(
            isinstance(inner, _OTHER_SHAPES) and id(inner) not in within
            for inner in nodes_within(*body)
        )
    )


def _is_plain_call(call: cst.Call) -> bool:
    name = called_name(call)
    return name in _PLAIN or is_elementwise_call(name) or name.endswith(".to")


def _masked(call: cst.Call, mask: cst.BaseExpression) -> cst.Call:
    own, both = argument_of(call, 1, "mask"), render_code(parenthesized(mask))
    return with_load_mask(
        call, both if own is None else f"{both} & {render_code(parenthesized(own))}"
    )


@dataclass(frozen=True)
class _Reader:
    """Meanings of a function's names, as far as masks need them.

    Attributes:
        body: the function's statements.
        mask: of its stores.
    """

    body: Body
    mask: cst.BaseExpression

    @property
    def first_place(self) -> int:
        """The first of the function's statements that may use the mask; beyond all if none may."""
        counts, names = Counter(assigned_names(*self.body)), names_within(self.mask)
        places = [
            place
            for place, statement in enumerate(self.body)
            if (binding := single_assignment(statement)) is not None and binding.target in names
        ]
        is_fixed = len(places) == sum(counts[name] for name in names)
        is_single = all(counts[name] <= 1 for name in names)
        return max(places, default=-1) + 1 if is_fixed and is_single else len(self.body)

    def lacks_mask(self, call: cst.Call) -> bool:
        """Tell whether a load of a block lacks the mask, and would take it."""
        own = argument_of(call, 1, "mask")
        if argument_of(call, 99, "boundary_check") is not None or not call.args:
            return False
        is_block = self._is_block(call.args[0].value)
        wanting = {plain_code(part) for part in self._parts(self.mask)}
        present = {plain_code(part) for part in self._parts(own)} if own is not None else set()
        return is_block and not wanting <= present

    def _parts(self, mask: cst.BaseExpression) -> Iterator[cst.BaseExpression]:
        """Yield what all of a mask's parts must be, through names that are assigned once."""
        if isinstance(mask, cst.Name):
            values = values_of(mask.value, walk_statements(self.body))
            if len(values) == 1 == Counter(assigned_names(*self.body))[mask.value]:
                yield from self._parts(values[0])
                return
        if is_operation(mask, cst.BitAnd):
            yield from self._parts(mask.left)
            yield from self._parts(mask.right)
            return
        yield mask

    def _is_block(self, pointer: cst.BaseExpression) -> bool:
        """Tell whether an address is a block's: it comes from a range."""
        pending, seen = [pointer], set[str]()
        while pending:
            node = pending.pop()
            if calls_within(node, "tl.arange"):
                return True
            for name in names_within(node) - seen:
                seen.add(name)
                pending += values_of(name, walk_statements(self.body))
        return False
