"""A long reduction by few programs becomes parts, and a second kernel that adds them up."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import libcst as cst

from solkit.tuner.proposers.rewriter._edit import (
    Parameter,
    arguments_of,
    changed_text,
    device_tensor,
    launch_line,
    options_of,
    program_axis,
    renamed_function,
    with_params,
)
from solkit.tuner.proposers.rewriter._lift import CannotLiftError, without_running
from solkit.tuner.proposers.rewriter._mutation import Facts, Variant
from solkit.tuner.proposers.rewriter._parse import (
    KernelText,
    Launch,
    Loop,
    Node,
    assigned_names,
    called_name,
    calls_within,
    in_launcher,
    names_within,
    nodes_within,
    parenthesized,
    parse_expression,
    parse_kernel,
    parse_statement,
    render_code,
    replace_each,
    single_assignment,
    with_body,
)
from solkit.tuner.proposers.rewriter.carried_statistics import Statistic, carried_statistics
from solkit.tuner.proposers.rewriter.split_phases import split_phases
from solkit.tuner.proposers.rewriter.tile_constants import lifted_constants

__all__ = ["Split"]

_PARTS = (2, 4, 8, 16, 32, 64)
_WRITES = ("tl.store", "tl.atomic_add", "tl.atomic_max", "tl.atomic_min")
_BLOCKS_PER_SM = 4
"""Programs for each multiprocessor that hide each other's latency; more parts cost traffic."""
_MOST_AXES = 3
_PROGRAM, _PROGRAMS = "tl.program_id", "tl.num_programs"


class Split:
    """The loop over a reduction is shared by several programs, whose parts a second kernel joins.

    Applies to functions with one loop over a range that writes nothing, and carries sums, extremes,
    or sums relative to a running maximum, as in attention; loops may be in it. Where there are
    several loops, some of which may write, or places of extremes, see `split_phases`. Parts are in
    buffers of the launcher; no atomics, so results do not depend on the order.
    """

    kind = "split reduction"
    helps = ("few blocks", "tail", "part-filled wave", "one trip at a time", "latency")

    def variants(self, text: KernelText, facts: Facts) -> Iterator[Variant]:
        """See `Rewrite.variants`."""
        for launch in text.single:
            programs = facts.programs(launch.function.name)
            enough = _BLOCKS_PER_SM * facts.sms
            if programs is not None and programs >= enough:
                continue
            parts = (
                16 if programs is None else max(2, min(64, _power_of_two_below(enough // programs)))
            )
            if source := _split_launch(text, launch, parts):
                few = "" if programs is None else f" by {programs} programs"
                why = facts.explain_factors("tail", "latency")
                yield Variant(
                    source,
                    f"{launch.function.name} reduces along a loop{few} for {facts.sms} "
                    f"multiprocessors; {parts} parts fill more of them{why}.",
                )


def _split_launch(text: KernelText, launch: Launch, parts: int) -> str:
    """Return the file with a launch split; empty if that cannot be.

    Blocks that are carried have one size in both launches: a parameter, if it may change.
    """
    shared = _shared_loop(launch)
    if shared is None:
        return split_phases(text, launch, parts)
    if any(total.shape for total in shared.statistics):
        text = parse_kernel(lifted_constants(text)) or text
        shared = _shared_loop(text.launches_of(launch.function.name)[0])
    return "" if shared is None else _split_loop(text, shared, parts)


def _power_of_two_below(size: int) -> int:
    return 1 << max(size, 1).bit_length() - 1


@dataclass(frozen=True)
class _SharedLoop:
    """A loop whose trips several programs share.

    Attributes:
        launch: of its function.
        place: the loop's, among the function's statements.
        loop: without names that move on.
        statistics: what it carries.
    """

    launch: Launch
    place: int
    loop: Loop
    statistics: list[Statistic]

    @property
    def axes(self) -> tuple[cst.BaseExpression, ...]:
        """The grid's sizes."""
        return self.launch.axes or ()

    @property
    def own_axis(self) -> int:
        """The grid's axis of the parts, behind the launch's; its last one if all are taken."""
        return min(len(self.axes), _MOST_AXES - 1)


def _shared_loop(launch: Launch) -> _SharedLoop | None:
    """Return the function's loop if several programs can share it; else ``None``."""
    function, axes = launch.function, launch.axes
    outer = [s for s in function.body if isinstance(s, (cst.For, cst.While))]
    if axes is None or len(axes) > _MOST_AXES or len(outer) != 1 or len(function.loops) != 1:
        return None
    loop = function.loops[0]
    place = function.body.index(loop.node)
    before, after = function.body[:place], function.body[place + 1 :]
    if any(called_name(call) in _WRITES for s in (*before, *loop.body) for call in calls_within(s)):
        return None
    if any(isinstance(node, cst.Return) for s in before for node in nodes_within(s)):
        return None  # a program that ends early leaves its part as it was
    if names_within(loop.stop) <= function.constants or _depends_on_program(loop.start, before):
        return None  # it is short, or a part of a range already
    try:
        body = without_running(loop, names_within(*after))
    except CannotLiftError:
        return None
    statistics = carried_statistics(before, body, loop.name)
    if not statistics:
        return None
    own = {loop.name, *assigned_names(*body)} - {statistic.name for statistic in statistics}
    if own & names_within(*after) - set(assigned_names(*after)):
        return None  # the last trip's value is used
    whole = with_body(loop.node, body)
    return _SharedLoop(launch, place, replace(loop, node=whole, body=tuple(body)), statistics)


def _depends_on_program(start: cst.BaseExpression, before: Sequence[cst.BaseStatement]) -> bool:
    """Tell whether a loop starts at a place that is computed from the program's index.

    One that was loaded, as of a ragged row, is not meant.
    """
    values = {a.target: a.value for s in before if (a := single_assignment(s)) is not None}
    pending, seen = [start], set()
    while pending:
        node = pending.pop()
        loads = {
            id(inner) for call in calls_within(node, "tl.load") for inner in nodes_within(call)
        }
        rest = [inner for inner in nodes_within(node) if id(inner) not in loads]
        if any(called_name(inner) == _PROGRAM for inner in rest):
            return True
        for inner in rest:
            name = inner.value if isinstance(inner, cst.Name) else ""
            if name in values and name not in seen:
                seen.add(name)
                pending.append(values[name])
    return False


# ------------------------------------------------------------------------------- writing it


def _split_loop(text: KernelText, shared: _SharedLoop, parts: int) -> str:
    launch, function = shared.launch, shared.launch.function
    split = text.fresh("SPLIT")
    buffers = {total.name: text.fresh(f"{total.name}_parts") for total in shared.statistics}
    sizes = {total.name: _statistic_size(total, launch) for total in shared.statistics}
    tensor = device_tensor(launch)
    if any(size is None for size in sizes.values()) or not tensor:
        return ""
    pointers = {name: f"{buffer}_ptr" for name, buffer in buffers.items()}
    programs = " * ".join(render_code(parenthesized(axis)) for axis in shared.axes)
    first = _partial_kernel(shared, pointers, split)
    second = _final_kernel(shared, pointers, split)
    names_of = (text.fresh(f"{function.name}_parts"), text.fresh(f"{function.name}_whole"))
    nodes = [
        with_params(
            renamed_function(function, name, body),
            added=list(pointers.values()),
            constants=[split],
        )
        for name, body in zip(names_of, (first, second), strict=True)
    ]
    launched = [
        parse_statement(
            f"{buffers[total.name]} = torch.empty(({split}, {programs}, {sizes[total.name]}), "
            f"dtype={total.dtype}, device={tensor}.device)"
        )
        for total in shared.statistics
    ]
    launched[0] = launched[0].with_changes(leading_lines=launch.statement.leading_lines)
    arguments = {**arguments_of(launch), **{pointers[n]: buffers[n] for n in buffers}, split: split}
    order = [param.name.value for param in nodes[0].params.params]
    arguments = {name: arguments[name] for name in order if name in arguments}
    options, constants = options_of(launch), {*function.constants, split}
    grids = (_grid_of_parts(shared, split), _plain_grid(shared.axes))
    launched += [
        launch_line(name, grid, arguments, options, constants)
        for name, grid in zip(names_of, grids, strict=True)
    ]
    return changed_text(
        text,
        functions={function.name: nodes[0]},
        added={function.name: nodes[1:]},
        launches=[(launch.statement, launched)],
        parameters=[Parameter(split, parts, _PARTS)],
    )


def _plain_grid(axes: Sequence[cst.BaseExpression]) -> str:
    sizes = ", ".join(render_code(axis) for axis in axes)
    return f"({sizes},)" if len(axes) == 1 else f"({sizes})"


def _grid_of_parts(shared: _SharedLoop, split: str) -> str:
    sizes = [render_code(axis) for axis in shared.axes]
    if len(sizes) < _MOST_AXES:
        return f"({', '.join([*sizes, split])})"
    return f"({', '.join(sizes[:-1])}, {render_code(parenthesized(shared.axes[-1]))} * {split})"


def _statistic_size(total: Statistic, launch: Launch) -> str | None:
    """Return the number of a statistic's elements as code of the launcher."""
    sizes = [in_launcher(parse_expression(size), launch) for size in total.shape]
    if any(size is None for size in sizes):
        return None
    return " * ".join(render_code(parenthesized(size)) for size in sizes if size is not None) or "1"


def _part_pointer(total: Statistic, pointer: str, part: str, axes: int) -> str:
    """Return the pointer to a statistic's part: (part, program, element)."""
    program, programs = f"{_PROGRAM}(0)", f"{_PROGRAMS}(0)"
    for axis in range(1, axes):
        program = f"({program} * {_PROGRAMS}({axis}) + {_PROGRAM}({axis}))"
        programs += f" * {_PROGRAMS}({axis})"
    size = "".join(f" * {size}" for size in total.shape)
    grouped = f"({programs})" if axes > 1 else programs
    base = f"{pointer} + ({part} * {grouped} + {program}){size}"
    if len(total.shape) == 1:
        return f"{base} + tl.arange(0, {total.shape[0]})"
    if len(total.shape) == 2:
        rows, columns = total.shape
        row = f"tl.arange(0, {rows})[:, None] * {columns}"
        return f"{base} + {row} + tl.arange(0, {columns})[None, :]"
    return base


def _partial_kernel(
    shared: _SharedLoop, pointers: Mapping[str, str], split: str
) -> list[cst.BaseStatement]:
    loop, axis = shared.loop, shared.own_axis
    folded = axis < len(shared.axes)
    part = f"{_PROGRAM}({axis})" + (f" % {split}" if folded else "")
    step = render_code(parenthesized(loop.step))
    begin = f"{part} * {step}" if step != "1" else part
    if render_code(loop.start) != "0":
        begin = f"{render_code(parenthesized(loop.start))} + {begin}"
    stride = f"{split} * {step}" if step != "1" else split
    trips = loop.node.with_changes(
        iter=parse_expression(f"range({begin}, {render_code(loop.stop)}, {stride})")
    )
    stores = [
        parse_statement(
            f"tl.store({_part_pointer(total, pointers[total.name], part, len(shared.axes))}, "
            f"{total.name})"
        )
        for total in shared.statistics
    ]
    before = _with_finite_starts(shared.launch.function.body[: shared.place], shared.statistics)
    if folded:
        before = [_unfolded_axis(statement, axis, split) for statement in before]
        trips = _unfolded_axis(trips, axis, split, kept=part)
        stores = [_unfolded_axis(statement, axis, split, kept=part) for statement in stores]
    return [*before, trips, *stores]


def _with_finite_starts(
    before: Sequence[cst.BaseStatement], statistics: Sequence[Statistic]
) -> list[cst.BaseStatement]:
    """Return statements with starts that a part without any trip may keep."""
    starts = {total.name: total.start for total in statistics if total.start}
    return [
        parse_statement(f"{binding.target} = {starts[binding.target]}")
        if (binding := single_assignment(statement)) is not None and binding.target in starts
        else statement
        for statement in before
    ]


def _unfolded_axis(node: Node, axis: int, split: str, kept: str = "") -> Node:
    """Return code with the index and the size of an axis as they were without the parts."""
    pairs: list[tuple[cst.CSTNode, cst.CSTNode]] = []
    parts = [
        inner.left
        for inner in nodes_within(node)
        if kept and isinstance(inner, cst.BinaryOperation) and render_code(inner) == kept
    ]
    for call in calls_within(node, _PROGRAM, _PROGRAMS):
        if program_axis(call) == axis and not any(call is part for part in parts):
            pairs.append((call, parse_expression(f"({render_code(call)} // {split})")))
    return replace_each(node, pairs)


def _final_kernel(
    shared: _SharedLoop, pointers: Mapping[str, str], split: str
) -> list[cst.BaseStatement]:
    body = shared.launch.function.body
    is_small = all(len(total.shape) < 2 for total in shared.statistics)  # then all loads at once
    over = "tl.static_range" if is_small else "range"
    loop = cst.ensure_type(parse_statement(f"for part in {over}({split}):\n    pass\n"), cst.For)
    parts = {
        total.name: f"tl.load({_part_pointer(total, pointers[total.name], 'part', axes)})"
        for axes in [len(shared.axes)]
        for total in shared.statistics
    }
    joined: list[str] = []
    relative = [total for total in shared.statistics if total.maximum]
    maxima = {total.maximum for total in relative}
    for total in shared.statistics:
        if total.name in maxima:
            joined.append(f"{total.name}_part = {parts[total.name]}")
            joined.append(f"{total.name}_joined = {total.joined(f'{total.name}_part')}")
        elif not total.maximum:
            joined.append(f"{total.name} = {total.joined(parts[total.name])}")
    for total in relative:
        peak = total.maximum
        old = total.rescaled(f"{peak} - {peak}_joined")
        new = total.rescaled(f"{peak}_part - {peak}_joined")
        joined.append(f"{total.name} = {total.name} * {old} + {parts[total.name]} * {new}")
    joined += [f"{peak} = {peak}_joined" for peak in sorted(maxima)]
    before = _with_finite_starts(body[: shared.place], shared.statistics)
    return [
        *before,
        with_body(loop, [parse_statement(line) for line in joined]),
        *body[shared.place + 1 :],
    ]
