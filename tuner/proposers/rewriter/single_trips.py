"""Loops over a program's share of independent trips become a program for each trip.

::

    first = tl.program_id(0)                   row = tl.program_id(0)
    for i in range(trips):                →    tl.store(y + row, 2 * tl.load(x + row))
        row = first * trips + i
        tl.store(y + row, 2 * tl.load(x + row))

Loops from a program's index on, in steps of the number of programs, likewise.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import libcst as cst

from solkit.tuner.proposers.rewriter._assignments import read_part
from solkit.tuner.proposers.rewriter._edit import (
    MOST_OF_AXIS,
    grid_axis,
    grid_with,
    program_axis,
    renamed_function,
)
from solkit.tuner.proposers.rewriter._memory import PLAIN_WRITES, WRITES, touches_memory
from solkit.tuner.proposers.rewriter._mutation import Facts, Variant
from solkit.tuner.proposers.rewriter._nodes import (
    Loop,
    assigned_names,
    called_name,
    calls_within,
    compact_code,
    expression_statement,
    names_read_first,
    names_within,
    nodes_within,
    parenthesized,
    range_loop,
    render_code,
    replace_each,
    single_assignment,
    statements_of,
    substitute_names,
    walk_statements,
    with_body,
)
from solkit.tuner.proposers.rewriter._parse import KernelText, Launch, in_launcher, parse_kernel
from solkit.tuner.proposers.rewriter._relaunch import NewLaunch, relaunched
from solkit.tuner.proposers.rewriter._values import reads_other_trips, writes_in_order
from solkit.tuner.proposers.rewriter.split_loops import writes_apart

_PROGRAM, _PROGRAMS = "tl.program_id", "tl.num_programs"


class SingleTrips:
    """A program takes one trip of a loop in which a fixed number of programs share rows or tiles.

    Applies to functions that end with the loop, which carries nothing. More programs hide each
    other's latency, and rewrites that join launches or rows read them.
    """

    kind = "single trips"
    helps = ("latency", "few blocks", "one trip at a time", "tail")

    def variants(self, text: KernelText, facts: Facts) -> Iterator[Variant]:
        """See `Rewrite.variants`."""
        source, names = "", list[str]()
        for name in [launch.function.name for launch in text.single]:
            (launch,) = text.launches_of(name)
            changed = with_single_trips(text, launch)
            following = parse_kernel(changed) if changed else None
            if following is not None:
                names.append(name)
                source, text = changed, following
        if source:
            why = facts.explain_factors("latency", "tail")
            yield Variant(source, f"Each trip of {', '.join(names)} is a program of its own{why}.")


@dataclass(frozen=True)
class _Share:
    """A loop over a program's share of trips.

    Attributes:
        axis: of the grid.
        places: expressions that say which of all trips it is; empty for the loop's variable.
        count: number of all trips, in the launcher; empty for one per program and trip.
    """

    axis: int
    places: tuple[cst.BaseExpression, ...] = ()
    count: str = ""


def with_single_trips(text: KernelText, launch: Launch) -> str:
    """Return the file whose launch has a program for each trip; empty if it has no such loop."""
    function, axes = launch.function, launch.axes
    loop = range_loop(function.body[-1])
    if loop is None or axes is None or not _is_independent(loop, launch):
        return ""
    before = function.body[:-1]
    indices = {
        binding.target: axis
        for s in before
        if (binding := single_assignment(s)) and (axis := _index_axis(binding.value)) is not None
    }
    stop = in_launcher(loop.stop, launch)
    share = None if stop is None else _contiguous(loop, indices) or _strided(loop, indices, stop)
    if share is None or stop is None or share.axis >= len(axes):
        return ""
    index = next(name for name, axis in indices.items() if axis == share.axis)
    index_calls = calls_within(
        function.node.with_changes(body=cst.IndentedBlock([*before, *loop.body])),
        _PROGRAM,
        _PROGRAMS,
    )
    of_index = [call for call in index_calls if grid_axis(call) in (None, share.axis)]
    if len(of_index) != 1 or index in names_within(*map(read_part, before)):
        return ""  # something else follows from the program, or from how many there are
    if share.places:
        body = replace_each(loop.node, [(node, cst.Name(index)) for node in share.places])
        kept = range_loop(body)
        rest = [] if kept is None else list(kept.body)
    else:
        rest = [substitute_names(s, {loop.name: cst.Name(index)}) for s in loop.body]
    of_axis = render_code(parenthesized(axes[share.axis]))
    size = share.count or f"{of_axis} * {render_code(parenthesized(stop))}"
    name = text.fresh(f"{function.name}_single") if share.axis else function.name
    node = with_body(function.node, [*before, *rest])
    return relaunched(
        text,
        NewLaunch(
            launch,
            renamed_function(function, name, statements_of(node)) if share.axis else node,
            grid=grid_with(axes, share.axis, size),
        ),
        condition=f"{size} <= {MOST_OF_AXIS}" if share.axis else "",
    )


def _is_independent(loop: Loop, launch: Launch) -> bool:
    """Tell whether a loop hands on nothing, and what is ahead of it touches no memory.

    Trips of two programs are in no order. So trips whose blocks overlap had no result of their own
    before either, where places of stores are sums and products of the trip.
    """
    function = launch.function
    stores = calls_within(loop.node, "tl.store")
    if not (writes_apart(loop, {}) and writes_in_order(loop) if stores else _only_adds(loop)):
        return False
    if reads_other_trips(launch, loop.node):
        return False
    own = set(assigned_names(*loop.body))
    ahead = function.body[:-1]
    loads = any(touches_memory(call) for statement in ahead for call in calls_within(statement))
    leaves = (cst.Break, cst.Continue, cst.Return, cst.While)
    odd = any(isinstance(node, leaves) for node in nodes_within(function.node.body))
    shared = own & (set(assigned_names(*ahead)) | set(function.params) | {loop.name})
    changes = names_within(loop.stop) & set(assigned_names(*function.body))
    return not (loads or odd or shared or changes or names_read_first(loop.body) & own)


def _only_adds(loop: Loop) -> bool:
    """Tell whether all writes are atomics that leave the same in any order, and return nothing."""
    own = filter(None, map(expression_statement, walk_statements(loop.body)))
    adding = {id(call) for call in own if called_name(call) in PLAIN_WRITES}
    return all(id(call) in adding for call in calls_within(loop.node, *WRITES))


def _index_axis(node: cst.BaseExpression) -> int | None:
    is_index = isinstance(node, cst.Call) and called_name(node) == _PROGRAM
    return program_axis(node) if is_index and isinstance(node, cst.Call) else None


def _contiguous(loop: Loop, indices: dict[str, int]) -> _Share | None:
    """Return the share of ``program * trips + i``, if nothing else asks for the program or `i`."""
    counted = any(calls_within(statement, _PROGRAMS) for statement in loop.body)
    if compact_code(loop.start) != "0" or compact_code(loop.step) != "1" or counted:
        return None
    stop = compact_code(loop.stop)
    for index, axis in indices.items():
        products = {f"{index}*{stop}", f"{stop}*{index}"}
        forms = {f"{p}+{loop.name}" for p in products} | {f"{loop.name}+{p}" for p in products}
        places = tuple(
            node
            for statement in loop.body
            for node in nodes_within(statement)
            if isinstance(node, cst.BinaryOperation) and compact_code(node) in forms
        )
        within = [node for place in places for node in nodes_within(place)]
        asks = [
            node
            for statement in loop.body
            for node in nodes_within(statement)
            if isinstance(node, cst.Name) and node.value in (index, loop.name)
        ]
        if places and {id(node) for node in asks} <= {id(node) for node in within}:
            return _Share(axis, places)
    return None


def _strided(loop: Loop, indices: dict[str, int], stop: cst.BaseExpression) -> _Share | None:
    """Return the share from a program's index on, in steps of the number of programs."""
    start = compact_code(loop.start)
    axis = indices.get(start, _index_axis(loop.start))
    named = start in indices and start in names_within(*loop.body)
    if axis is None or named or compact_code(loop.step) != f"{_PROGRAMS}({axis})":
        return None
    counted = any(calls_within(statement, _PROGRAMS) for statement in loop.body)
    return None if counted or axis not in indices.values() else _Share(axis, (), render_code(stop))
