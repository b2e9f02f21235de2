"""A long reduction by few programs becomes parts, and a second kernel that adds them up."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import libcst as cst

from solkit.tuner.proposers.rewriter._edit import (
    Parameter,
    arguments_of,
    changed_text,
    device_tensor,
    launch_line,
    options_of,
    renamed_function,
    with_params,
)
from solkit.tuner.proposers.rewriter._mutation import Facts, Variant
from solkit.tuner.proposers.rewriter._parse import (
    KernelText,
    Launch,
    Loop,
    argument_of,
    assigned_names,
    called_name,
    calls_within,
    in_launcher,
    names_within,
    parenthesized,
    parse_expression,
    parse_statement,
    render_code,
    single_assignment,
    walk_statements,
    with_body,
)

__all__ = ["Split"]

_PARTS = (2, 4, 8, 16, 32, 64)
_WRITES = ("tl.store", "tl.atomic_add", "tl.atomic_max", "tl.atomic_min")
_BLOCKS_PER_SM = 4
"""Programs for each multiprocessor that hide each other's latency; more parts cost traffic."""
_MOST_AXES = 2  # a grid has three, the last is the parts'


@dataclass(frozen=True)
class _Sum:
    """Sum, or maximum, that a loop accumulates.

    Attributes:
        name: of the accumulator.
        shape: its sizes as code; empty for a scalar.
        combine: the code that joins it with another.
    """

    name: str
    shape: tuple[str, ...]
    combine: str


class Split:
    """The loop over a reduction is shared by several programs, whose parts a second kernel joins.

    Applies to functions with one loop over a range, which only adds to fp32 accumulators or keeps
    maxima, and writes nothing, on a grid of at most two axes. Parts are fp32 in a buffer of the
    launcher; no atomics, so results do not depend on the order.
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
            loop_and_sums = _loop_and_sums(launch)
            parts = (
                16 if programs is None else max(2, min(64, _power_of_two_below(enough // programs)))
            )
            if loop_and_sums is not None and (
                source := _split_loop(text, launch, *loop_and_sums, parts)
            ):
                few = "" if programs is None else f" by {programs} programs"
                why = facts.explain_factors("tail", "latency")
                yield Variant(
                    source,
                    f"{launch.function.name} reduces along a loop{few} for {facts.sms} "
                    f"multiprocessors; {parts} parts fill more of them{why}.",
                )


def _power_of_two_below(size: int) -> int:
    return 1 << max(size, 1).bit_length() - 1


def _loop_and_sums(launch: Launch) -> tuple[int, Loop, list[_Sum]] | None:
    """Return the loop's place, the loop and its accumulators; ``None`` if it is of another form."""
    function, axes = launch.function, launch.axes
    inner = [
        node for s in function.body for node in walk_statements([s]) if isinstance(node, cst.For)
    ]
    if axes is None or len(axes) > _MOST_AXES or len(inner) != 1 or len(function.loops) != 1:
        return None
    loop = function.loops[0]
    if any(called_name(call) in _WRITES for s in loop.body for call in calls_within(s)):
        return None
    if render_code(loop.start) != "0" or names_within(loop.stop) <= function.constants:
        return None  # it is a part of a range already, or short
    place = function.body.index(loop.node)
    sums = _split_sums(function.body[:place], loop)
    return None if not sums else (place, loop, sums)


def _split_sums(before: Sequence[cst.BaseStatement], loop: Loop) -> list[_Sum]:
    outside = set(assigned_names(*before))
    carried = [name for name in dict.fromkeys(assigned_names(*loop.body)) if name in outside]
    sums = []
    for name in carried:
        bindings = [
            a for s in loop.body if (a := single_assignment(s)) is not None and a.target == name
        ]
        start = [a for s in before if (a := single_assignment(s)) is not None and a.target == name]
        shape = _accumulator_shape(start[-1].value) if start else None
        combine = _combine_parts(name, bindings[0].value) if len(bindings) == 1 else ""
        if shape is None or not combine:
            return []
        sums.append(_Sum(name, shape, combine))
    return sums


def _combine_parts(name: str, value: cst.BaseExpression) -> str:
    if isinstance(value, cst.BinaryOperation) and isinstance(value.operator, cst.Add):
        sides = [value.left, value.right]
        if (
            any(render_code(side) == name for side in sides)
            and sum(name in names_within(s) for s in sides) == 1
        ):
            return f"{name} + {{}}"
    for word in ("tl.maximum", "tl.minimum"):
        if called_name(value) == word:
            args = cst.ensure_type(value, cst.Call).args
            if sum(render_code(arg.value) == name for arg in args) == 1:
                return f"{word}({name}, {{}})"
    if (
        called_name(value) == "tl.dot"
        and render_code(cst.ensure_type(value, cst.Call).args[-1].value) == name
    ):
        return f"{name} + {{}}"
    return ""


def _accumulator_shape(start: cst.BaseExpression) -> tuple[str, ...] | None:
    """Return the sizes of an accumulator by its first value; ``None`` if it is not fp32."""
    if called_name(start) in ("tl.zeros", "tl.full"):
        call = cst.ensure_type(start, cst.Call)
        dtype = argument_of(call, 1 if called_name(start) == "tl.zeros" else 2, "dtype")
        shape = argument_of(call, 0, "shape")
        if (
            dtype is not None
            and render_code(dtype) == "tl.float32"
            and isinstance(shape, (cst.Tuple, cst.List))
        ):
            return tuple(render_code(element.value) for element in shape.elements)
        return None
    return () if isinstance(start, cst.Float) or "float(" in render_code(start) else None


# ------------------------------------------------------------------------------- writing it


def _split_loop(
    text: KernelText, launch: Launch, place: int, loop: Loop, sums: list[_Sum], parts: int
) -> str:
    function, axes = launch.function, launch.axes or ()
    split = text.fresh("SPLIT")
    buffers = {total.name: text.fresh(f"{total.name}_parts") for total in sums}
    sizes = {total.name: _accumulator_size(total, launch) for total in sums}
    tensor = device_tensor(launch)
    if any(size is None for size in sizes.values()) or not tensor:
        return ""
    pointers = {name: f"{buffer}_ptr" for name, buffer in buffers.items()}
    programs = " * ".join(render_code(parenthesized(axis)) for axis in axes)
    first = _partial_kernel(launch, place, loop, sums, pointers, split)
    second = _final_kernel(launch, place, sums, pointers, split)
    names_of = (text.fresh(f"{function.name}_parts"), text.fresh(f"{function.name}_whole"))
    extra = list(pointers.values())
    nodes = [
        with_params(renamed_function(function, name, body), added=extra, constants=[split])
        for name, body in zip(names_of, (first, second), strict=True)
    ]
    launched = [
        parse_statement(
            f"{buffer} = torch.empty(({split}, {programs}, {sizes[name]}), "
            f"dtype=torch.float32, device={tensor}.device)"
        )
        for name, buffer in buffers.items()
    ]
    launched[0] = launched[0].with_changes(leading_lines=launch.statement.leading_lines)
    arguments = {**arguments_of(launch), **{pointers[n]: buffers[n] for n in buffers}, split: split}
    order = [param.name.value for param in nodes[0].params.params]
    arguments = {name: arguments[name] for name in order if name in arguments}
    grid = ", ".join(render_code(axis) for axis in axes)
    constants = {*function.constants, split}
    launched.append(
        launch_line(names_of[0], f"({grid}, {split})", arguments, options_of(launch), constants)
    )
    plain = f"({grid},)" if len(axes) == 1 else f"({grid})"
    launched.append(launch_line(names_of[1], plain, arguments, options_of(launch), constants))
    return changed_text(
        text,
        functions={function.name: nodes[0]},
        added={function.name: nodes[1:]},
        launches=[(launch.statement, launched)],
        parameters=[Parameter(split, parts, _PARTS)],
    )


def _accumulator_size(total: _Sum, launch: Launch) -> str | None:
    """Return the number of an accumulator's elements as code of the launcher."""
    sizes = [in_launcher(parse_expression(size), launch) for size in total.shape]
    if any(size is None for size in sizes):
        return None
    return " * ".join(render_code(parenthesized(size)) for size in sizes if size is not None) or "1"


def _part_pointer(accumulator: _Sum, pointer: str, part: str, axes: int) -> str:
    """Return the pointer to an accumulator's part: (part, program, element)."""
    program = (
        "tl.program_id(0)"
        if axes == 1
        else "(tl.program_id(0) * tl.num_programs(1) + tl.program_id(1))"
    )
    total = "tl.num_programs(0)" if axes == 1 else "(tl.num_programs(0) * tl.num_programs(1))"
    size = "".join(f" * {size}" for size in accumulator.shape)
    base = f"{pointer} + ({part} * {total} + {program}){size}"
    if len(accumulator.shape) == 1:
        return f"{base} + tl.arange(0, {accumulator.shape[0]})"
    if len(accumulator.shape) == 2:
        rows, columns = accumulator.shape
        row = f"tl.arange(0, {rows})[:, None] * {columns}"
        return f"{base} + {row} + tl.arange(0, {columns})[None, :]"
    return base


def _partial_kernel(
    launch: Launch, place: int, loop: Loop, sums: list[_Sum], pointers: dict[str, str], split: str
) -> list[cst.BaseStatement]:
    axes = launch.axes or ()
    part, step = f"tl.program_id({len(axes)})", render_code(parenthesized(loop.step))
    begin = f"{part} * {step}" if step != "1" else part
    if render_code(loop.start) != "0":
        begin = f"{render_code(parenthesized(loop.start))} + {begin}"
    stride = f"{split} * {step}" if step != "1" else split
    shared = loop.node.with_changes(
        iter=parse_expression(f"range({begin}, {render_code(loop.stop)}, {stride})")
    )
    stores = [
        parse_statement(
            f"tl.store({_part_pointer(total, pointers[total.name], part, len(axes))}, {total.name})"
        )
        for total in sums
    ]
    return [*launch.function.body[:place], shared, *stores]


def _final_kernel(
    launch: Launch, place: int, sums: list[_Sum], pointers: dict[str, str], split: str
) -> list[cst.BaseStatement]:
    axes, body = launch.axes or (), launch.function.body
    loop = cst.ensure_type(parse_statement(f"for part in range({split}):\n    pass\n"), cst.For)
    joined = []
    for total in sums:
        pointer = _part_pointer(total, pointers[total.name], "part", len(axes))
        joined.append(
            parse_statement(f"{total.name} = {total.combine.format(f'tl.load({pointer})')}")
        )
    return [*body[:place], with_body(loop, joined), *body[place + 1 :]]
