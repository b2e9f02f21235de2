"""Indices of a launch's programs and of their blocks' elements, solved for another launch's.

The writer stores an element at an offset that follows from its indices, one or more of a grid's
axis; the reader loads at an offset of its own. Solving one for the other gives the indices for
which the writer's statements are repeated within the reader, whatever the grids.

Notation
    _index_k    the index along axis k of the grid: of a program, or of an element of its block
    offset      a sum of products, of indices and of the launcher's values
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import libcst as cst

from solkit.tuner.proposers.rewriter._edit import program_axis
from solkit.tuner.proposers.rewriter._nodes import (
    Swap,
    argument_of,
    called_name,
    child_nodes,
    compact_code,
    names_within,
    parenthesized,
    plain_code,
    render_code,
    replace_each,
    substitute_names,
)
from solkit.tuner.proposers.rewriter._offset_products import (
    OtherOffsetError,
    Product,
    offset_products,
    unspread,
)
from solkit.tuner.proposers.rewriter._operations import (
    both_orders,
    compared_sides,
    conjuncts,
    is_operation,
    is_zero,
)
from solkit.tuner.proposers.rewriter._parse import Launch


@dataclass
class ProgramIndices:
    """The indices of a launch's programs, as its function computes them.

    Attributes:
        launch: the launch.
        places: the code of each index, over the function's parameters.
        sizes: how many there are of each, as code of the launcher.
    """

    launch: Launch
    places: dict[str, str]
    sizes: dict[str, str]

    def marked(self, node: cst.BaseExpression) -> cst.BaseExpression:
        """Return an expression without the function's own names, in which `_index_k` are indices.

        Raises:
            OtherOffsetError: an index is used otherwise.
        """
        pairs: list[Swap] = []
        pending: list[cst.CSTNode] = [node]
        while pending:
            part = pending.pop()
            index = self._index_of(part)
            if index is None:
                pending += child_nodes(part)
                continue
            pairs.append((part, cst.Name(index[0])))
            self.places[index[0]] = render_code(parenthesized(index[1]))
            size = self._size(int(index[0].rsplit("_", 1)[1]), index[2])
            if self.sizes.setdefault(index[0], size) != size:
                raise OtherOffsetError(render_code(part))
        return replace_each(node, pairs)

    def _index_of(self, node: cst.CSTNode) -> tuple[str, cst.BaseExpression, str] | None:
        """Return an index's name, code and block; ``None`` if a node is none."""
        if isinstance(node, cst.BaseExpression) and (tile := tile_index(node)) is not None:
            return f"_index_{tile[0]}", node, tile[1]
        axis = program_axis(node)
        if axis is None or not isinstance(node, cst.Call):
            return None
        return f"_index_{axis}", node, ""

    def _size(self, axis: int, block: str) -> str:
        """Return how many indices an axis has."""
        axes = self.launch.axes or ()
        if axis >= len(axes):
            raise OtherOffsetError(f"axis {axis}")
        if not block:
            return compact_code(axes[axis])
        argument = self.launch.arguments.get(block)
        size = argument_of(axes[axis], 0) if _is_cdiv(axes[axis]) else None
        by = argument_of(axes[axis], 1) if size is not None else None
        if size is None or by is None or argument is None:
            raise OtherOffsetError(render_code(axes[axis]))
        if render_code(by) != render_code(argument):
            raise OtherOffsetError(render_code(axes[axis]))
        return compact_code(size)


def _is_cdiv(node: cst.BaseExpression) -> bool:
    return called_name(node) in ("triton.cdiv", "tl.cdiv")


def tile_index(node: cst.BaseExpression) -> tuple[int, str] | None:
    """Return the axis and block of ``tl.program_id(axis) * BLOCK + tl.arange(0, BLOCK)``."""
    for first, elements in both_orders(node, cst.Add):
        begin, end = argument_of(elements, 0, "start"), argument_of(elements, 1, "end")
        if called_name(elements) != "tl.arange" or begin is None or end is None:
            continue
        for program, block in both_orders(first, cst.Multiply):
            axis = program_axis(program)
            if axis is not None and plain_code(block) == plain_code(end) and is_zero(begin):
                return axis, render_code(end)
    return None


def _in_launcher(node: cst.BaseExpression, launch: Launch) -> cst.BaseExpression:
    """Return an offset with the launch's arguments for the function's parameters."""
    values = {n: v for n, v in launch.arguments.items() if n in names_within(node)}
    return substitute_names(node, values)


def solved_indices(
    stored: ProgramIndices,
    offset: cst.BaseExpression,
    place: cst.BaseExpression,
    code: str,
    read: ProgramIndices,
) -> dict[str, str] | None:
    """Return the writer's indices, as the reader's code, at an offset of the reader.

    Args:
        stored: the writer's indices.
        offset: where it stores, over them.
        place: where the reader loads, over its indices.
        code: the same as code of the reader's.
        read: the reader's indices.
    """
    writes = offset_products(_in_launcher(offset, stored.launch))
    factors, spreads = {}, {}
    for product in writes:
        own = [factor for factor in product if unspread(factor)[0] in stored.places]
        name, spread = unspread(own[0]) if len(own) == 1 else ("", "")
        if not name or name in factors:
            return None
        factors[name], spreads[name] = tuple(f for f in product if f != own[0]), spread
    if set(factors) != set(stored.places):
        return None  # an index decides a value and not the place: it is written several times
    loads = offset_products(_in_launcher(place, read.launch))
    matched = _matched_indices((factors, spreads), loads, stored, read)
    if matched is not None:
        return matched
    if any(spreads.values()):
        return None  # the writer's statements are for a tile, and the place may be none
    if len(factors) == 1 and () in factors.values():
        return {next(iter(factors)): f"({code})"}
    return _divided_indices(factors, stored, code)


def _matched_indices(
    writes: tuple[Mapping[str, Product], Mapping[str, str]],
    loads: list[Product],
    stored: ProgramIndices,
    read: ProgramIndices,
) -> dict[str, str] | None:
    """Return indices that are each one of the reader's, over as many and along the same axes."""
    factors, spreads = writes
    if len(loads) != len(factors):
        return None
    result: dict[str, str] = {}
    for product in loads:
        own = [factor for factor in product if unspread(factor)[0] in read.places]
        if len(own) != 1:
            return None
        rest = tuple(f for f in product if f != own[0])
        name, spread = unspread(own[0])
        matches = [n for n, f in factors.items() if f == rest and n not in result]
        if len(matches) != 1 or stored.sizes[matches[0]] != read.sizes[name]:
            return None
        if spreads[matches[0]] != spread:
            return None
        result[matches[0]] = read.places[name]
    return result


def _divided_indices(
    factors: Mapping[str, Product], stored: ProgramIndices, code: str
) -> dict[str, str] | None:
    """Return the row and column of an offset in rows that are contiguous."""
    inner = [name for name, factor in factors.items() if not factor]
    outer = [name for name in factors if name not in inner]
    if len(inner) != 1 or len(outer) != 1 or factors[outer[0]] != (stored.sizes[inner[0]],):
        return None
    params = [
        name
        for name, value in stored.launch.arguments.items()
        if compact_code(value) == stored.sizes[inner[0]]
    ]
    if not params:
        return None
    size = f"{WRITERS}{params[0]}"
    return {outer[0]: f"({code}) // {size}", inner[0]: f"({code}) % {size}"}


WRITERS = "_writers_"
"""Marks a parameter of the writer in code of the reader."""


def is_bound(mask: cst.BaseExpression, indices: ProgramIndices) -> bool:
    """Tell whether a mask is true for all indices that there are."""
    if is_operation(mask, cst.BitAnd):
        return is_bound(mask.left, indices) and is_bound(mask.right, indices)
    if isinstance(mask, cst.Subscript):
        return is_bound(mask.value, indices)
    if (sides := compared_sides(mask, "<")) is None:
        return False
    index, _ = unspread(compact_code(sides[0]))
    return indices.sizes.get(index) == compact_code(_in_launcher(sides[1], indices.launch))


def bounded_indices(mask: cst.BaseExpression, indices: ProgramIndices) -> set[str]:
    """Return the indices that a mask keeps below their number."""
    bounds = (part for part in conjuncts(mask) if is_bound(part, indices))
    return {name for part in bounds for name in names_within(part) & set(indices.places)}
