"""Blocks that are as long as a row, of which nothing is reduced, are shared by several programs.

::

    n = tl.arange(0, BLOCK)    →    n = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)

A program that takes a row often has a block of ``triton.next_power_of_2(N)`` elements: few rows
then leave multiprocessors idle, and a long block spills. Where each element depends on its own
place and on numbers that all share, it may be of any program. The new axis of the grid is the last
one, so programs of one range of columns run together: of a table from which all gather rows, what
is read at a time stays in L2.
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from solkit.tuner.proposers.rewriter._assignments import following_names
from solkit.tuner.proposers.rewriter._edit import (
    Parameter,
    grid_axis,
    grid_constants,
    parameter,
)
from solkit.tuner.proposers.rewriter._lift_expressions import is_elementwise_call
from solkit.tuner.proposers.rewriter._memory import (
    is_write,
    mask_of,
    may_meet,
    may_write,
    touches_memory,
)
from solkit.tuner.proposers.rewriter._mutation import Facts, Variant
from solkit.tuner.proposers.rewriter._nodes import (
    HINTS,
    argument_of,
    called_name,
    calls_within,
    compact_code,
    count_uses,
    expression_statement,
    integer_literal,
    names_within,
    nodes_within,
    parse_expression,
    parse_statement,
    plain_code,
    render_code,
    replace_each,
    single_assignment,
    substitute_names,
    walk_statements,
)
from solkit.tuner.proposers.rewriter._operations import (
    compared_sides,
    conjuncts,
    converted_value,
)
from solkit.tuner.proposers.rewriter._parse import JitFunction, KernelText, Launch, in_launcher
from solkit.tuner.proposers.rewriter._relaunch import NewLaunch, relaunched
from solkit.tuner.proposers.rewriter._shapes import block_shapes, mixes_lengths, operand_shapes
from solkit.tuner.proposers.rewriter._values import argument_bases, whole_values

_COLUMNS = (64, 128, 256, 512, 1024, 2048, 4096)
_USUAL, _FEWEST = 1024, 128
_MOST_GATHERED = 256
"""Columns of rows that an index chooses: a table's columns at a time are then more likely in L2."""
_PROGRAMS_PER_SM = 4
_MOST_AXES = 2  # of the grid, which has three
_INDICES = ("tl.program_id", "tl.num_programs")
_SHAPED = ("tl.zeros", "tl.full", "tl.broadcast_to")
_REDUCTIONS = ("tl.sum", "tl.max", "tl.min")
_BARRIER = "tl.debug_barrier"
_PLAIN = frozenset(
    (*HINTS, *_SHAPED, "tl.arange", "tl.expand_dims", "tl.zeros_like", "tl.rand", "tl.randint")
)
"""Functions whose elements depend on their own place alone, besides arithmetic."""


class ColumnTiles:
    """A block as long as a row becomes several programs' tiles, along a new axis of the grid.

    Applies to compile-time constants that are lengths of ranges and of new blocks alone, where all
    that depends on such a range is elementwise, reduced along another axis, loaded or stored, and
    all writes do. What is stored must not be loaded, but at the same place.
    """

    kind = "column tiles"
    helps = ("few blocks", "tail", "part-filled wave", "latency", "extra traffic", "instructions")

    def variants(self, text: KernelText, facts: Facts) -> Iterator[Variant]:
        """See `Rewrite.variants`."""
        for launch in text.single:
            for block in sorted(_lengths(launch.function) - {*grid_constants(launch)}):
                if source := _with_tiles(text, launch, block, facts):
                    name, why = launch.function.name, facts.explain_factors("tail", "latency")
                    yield Variant(
                        source,
                        f"A program of {name} takes all of a row's columns; tiles of them are more "
                        f"programs, and share what stays in the caches{why}.",
                    )


def _with_tiles(text: KernelText, launch: Launch, block: str, facts: Facts) -> str:
    """Return the file with a block of a launch shared by programs; empty if that cannot be."""
    function, axes, length = launch.function, launch.axes, launch.arguments.get(block)
    if axes is None or len(axes) > _MOST_AXES or length is None or "triton" not in text.names:
        return ""
    size = facts.size(length, launch)
    is_short = size is not None and size <= 2 * _COLUMNS[0]
    if is_short or launch.launcher is not text.launcher or not _is_cut_anywhere(launch, block):
        return ""
    most = _MOST_GATHERED if _gathers(launch.function) else _COLUMNS[-1]
    default = min(_USUAL, most) if size is None else min(_USUAL, most // 2, size // 2)
    programs = facts.programs(launch)
    if size is not None and programs is not None:
        while default > _FEWEST and programs * size // default < _PROGRAMS_PER_SM * facts.sms:
            default //= 2
    values = tuple(v for v in _COLUMNS if v <= most and (size is None or v < size))
    columns = parameter(launch, text, Parameter(text.fresh("COLUMNS"), default, values))
    tile, code, row = columns.name, render_code(length), _row_length(launch, block)
    ahead = list[cst.BaseStatement]()
    if not row:  # what is not masked is no more than before
        tile = text.fresh("columns")
        ahead = [parse_statement(f"{tile} = min({columns.name}, {code})")]
    place = f"(tl.program_id({len(axes)}) * {block} + tl.arange(0, {block}))"
    ranges = [(call, parse_expression(place)) for call in _ranges(function.node, block)]
    return relaunched(
        text,
        NewLaunch(
            launch,
            replace_each(function.node, ranges),
            grid=f"({', '.join([*map(render_code, axes), f'triton.cdiv({row or code}, {tile})'])})",
            arguments={block: tile},
        ),
        before=ahead,
        parameters=[columns],
    )


def _gathers(function: JitFunction) -> bool:
    """Tell whether places of loads follow from what was loaded."""
    loaded = following_names(function.body, calls=("tl.load",))
    places = [call.args[0].value for call in calls_within(function.node, "tl.load") if call.args]
    return any(names_within(p) & loaded or calls_within(p, "tl.load") for p in places)


def _lengths(function: JitFunction) -> set[str]:
    """Return the constants that are lengths of ranges."""
    return {name for name in function.constants if _ranges(function.node, name)}


def _ranges(node: cst.CSTNode, block: str) -> list[cst.Call]:
    """Return the ranges from 0 to a block's length."""
    return [c for c in calls_within(node, "tl.arange") if plain_code(c) == _range_code(block)]


def _range_code(block: str) -> str:
    return f"tl.arange(0,{block})"


def _row_length(launch: Launch, block: str) -> str:
    """Return the launcher's size that masks all accesses along a block; empty for other masks."""
    along, lengths = _Along(launch.function, block), set[str]()
    values = whole_values(launch.function.body)
    for call in filter(touches_memory, calls_within(launch.function.node)):
        if not along.reaches(call):
            continue
        mask = mask_of(call)
        parts = [] if mask is None else conjuncts(_without_axes(substitute_names(mask, values)))
        sides = [compared_sides(_without_axes(part), "<") for part in parts]
        sizes = [s[1] for s in sides if s and plain_code(_without_axes(s[0])) == _range_code(block)]
        in_launch = in_launcher(sizes[0], launch) if sizes else None
        lengths.add("" if in_launch is None else compact_code(in_launch))
    length = compact_code(launch.arguments[block])
    row = lengths.pop() if len(lengths) == 1 else ""
    return row if length in (row, f"triton.next_power_of_2({row})") else ""


def _without_axes(node: cst.BaseExpression) -> cst.BaseExpression:
    return _without_axes(node.value) if isinstance(node, cst.Subscript) else node


# ------------------------------------------------------------------------------- proving it


def _is_cut_anywhere(launch: Launch, block: str) -> bool:
    """Tell whether elements along a block depend on their own place alone, and all writes are some.

    Stores of one program from two elements to one place are in no order, as threads have none: but
    for a barrier.
    """
    along, calls = _Along(launch.function, block), calls_within(launch.function.node.body)
    axes = [grid_axis(call) for call in calls if called_name(call) in _INDICES]
    pointers = [argument_of(call, 0, "pointer") for call in calls if is_write(call)]
    return (
        all(axis is not None and axis < len(launch.axes or ()) for axis in axes)
        and not any(may_write(call) and not is_write(call) for call in calls)
        and not any(called_name(call) == _BARRIER for call in calls)
        and all(pointer is not None and along.reaches(pointer) for pointer in pointers)
        and bool(pointers)
        and along.is_elementwise()
        and not _loads_what_is_stored(launch, calls)
    )


def _loads_what_is_stored(launch: Launch, calls: list[cst.Call]) -> bool:
    """Tell whether a load may read what another element's program stored."""
    values, params = whole_values(launch.function.body), {*launch.function.params, "tl"}

    def place(call: cst.Call) -> str:
        pointer = argument_of(call, 0, "pointer")
        whole = cst.Name("_") if pointer is None else substitute_names(pointer, values)
        return plain_code(whole) if names_within(whole) <= params else ""

    accesses = list(filter(touches_memory, calls))
    writes = [(argument_bases(launch, call), place(call)) for call in accesses if is_write(call)]
    return any(
        may_meet(bases, argument_bases(launch, call)) and (not code or code != place(call))
        for call in accesses
        if not is_write(call)
        for bases, code in writes
    )


class _Along:
    """Finds what depends on a block's range.

    Args:
        function: with the range.
        block: its length, a constant.
    """

    def __init__(self, function: JitFunction, block: str) -> None:
        self._function, self._block = function, block
        self._names = following_names(function.body, {block})
        self._reduced = operand_shapes(function, *_REDUCTIONS, in_stores=True)

    def reaches(self, node: cst.CSTNode) -> bool:
        """Tell whether a node depends on the range, or has its length."""
        return bool(names_within(node) & self._names)

    def is_elementwise(self) -> bool:
        """Tell whether nothing joins elements of two places, nor asks for the length."""
        function, block = self._function, self._block
        fills = calls_within(function.node, *_SHAPED)
        lengths = [node for call in fills for node in _lengths_of(call)]
        uses = len(_ranges(function.node, block)) + [*map(render_code, lengths)].count(block)
        if count_uses(function.node.body, block) != uses:
            return False
        if mixes_lengths(function, block):
            return False
        if any(shape.count(block) > 1 for shape in block_shapes(function)):
            return False  # columns against columns: a tile would meet its own alone
        return all(map(self._is_plain_statement, walk_statements(function.body)))

    def _is_plain_statement(self, statement: cst.BaseStatement) -> bool:
        if isinstance(statement, cst.For):
            return not self.reaches(statement.iter)
        if isinstance(statement, (cst.If, cst.While)):
            return not self.reaches(statement.test)
        binding, call = single_assignment(statement), expression_statement(statement)
        node = call if binding is None else binding.value
        if node is None:
            return not self.reaches(statement)
        return all(self._is_plain(inner) for inner in nodes_within(node) if self.reaches(inner))

    def _is_plain(self, node: cst.CSTNode) -> bool:
        """Tell whether a node that depends on the range is elementwise by itself."""
        if isinstance(node, cst.Call):
            return self._is_plain_call(node)
        if isinstance(node, cst.Subscript):
            return {render_code(element.slice) for element in node.slice} <= {":", "None"}
        if isinstance(node, cst.Attribute):
            return node.attr.value in ("to", "dtype")
        return not isinstance(node, (cst.IfExp, cst.MatrixMultiply, cst.NamedExpr))

    def _is_plain_call(self, call: cst.Call) -> bool:
        name = called_name(call)
        if name not in _REDUCTIONS:
            is_own = touches_memory(call) or converted_value(call) is not None or name in _PLAIN
            return is_own or is_elementwise_call(name)
        shape = self._reduced.get(id(call), ())
        place = argument_of(call, 1, "axis")
        axis = None if place is None else integer_literal(place)
        if axis is None or not axis < len(shape) or shape.count(self._block) != 1:
            return False
        return shape[axis] != self._block


def _lengths_of(call: cst.Call) -> list[cst.BaseExpression]:
    """Return the lengths of a new block."""
    shape = argument_of(call, int(called_name(call) == "tl.broadcast_to"), "shape")
    listed = shape.elements if isinstance(shape, (cst.Tuple, cst.List)) else ()
    return [element.value for element in listed]
