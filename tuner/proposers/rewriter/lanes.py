"""Reductions over a block leave the loop: each lane keeps its own, joined once at the end."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import libcst as cst

from solkit.tuner.proposers.rewriter._assignments import following_names
from solkit.tuner.proposers.rewriter._carried import (
    Carried,
    CarriedKind,
    carried_by,
    unpacked_statements,
)
from solkit.tuner.proposers.rewriter._first_values import Start, start_of_name, with_finite_starts
from solkit.tuner.proposers.rewriter._mutation import Facts, Variant
from solkit.tuner.proposers.rewriter._nodes import (
    Body,
    Loop,
    argument_of,
    called_name,
    calls_within,
    compact_code,
    names_within,
    nodes_within,
    parse_expression,
    parse_statement,
    render_code,
    replace_each,
    single_assignment,
    walk_statements,
    with_body,
)
from solkit.tuner.proposers.rewriter._operations import call_args, is_operation
from solkit.tuner.proposers.rewriter._parse import KernelText, Launch
from solkit.tuner.proposers.rewriter._variants import launch_variants

_REDUCTIONS = ("tl.sum", "tl.max", "tl.min", "tl.argmax", "tl.argmin")
_ROW_AXES = ("", "0", "None")


class Lanes:
    """Each lane of a block keeps a sum or an extremum of its own; one reduction follows the loop.

    Applies to loops in which all that is carried is a scalar made of reductions of blocks with one
    axis: sums, extrema with their places, and sums that a maximum rescales. A reduction makes the
    warps of a program wait for each other, in each trip.
    """

    kind = "lanes"
    helps = ("latency", "one trip at a time", "instructions", "barriers", "waits for loads")

    def variants(self, text: KernelText, facts: Facts) -> Iterator[Variant]:
        """See `Rewrite.variants`."""
        intent = (
            "{} reduces a block in each trip of a loop; lanes that keep their own results wait for "
            "each other once"
        )
        return launch_variants(text, facts, _with_lanes, intent, "latency", "instructions")


def _with_lanes(launch: Launch) -> cst.FunctionDef | None:
    """Return the function with lanes in all loops where that is possible; ``None`` for none."""
    body, done = launch.function.body, False
    for original in launch.function.loops:
        place = next(at for at, statement in enumerate(body) if statement is original.node)
        rewritten = _loop_with_lanes(body, place, original)
        if rewritten is not None:
            body, done = rewritten, True
    return with_body(launch.function.node, body) if done else None


def _loop_with_lanes(body: Body, place: int, loop: Loop) -> list[cst.BaseStatement] | None:
    trip = unpacked_statements(loop.body)
    loop = replace(loop, node=with_body(loop.node, trip), body=tuple(trip))
    updates = carried_by(trip, loop.name)
    width = _width_of_blocks(loop, body[:place])
    if updates is None or not width:
        return None
    kept = [u for u in updates.values() if u.kind is not CarriedKind.RUNNING]
    starts = {u.name: start_of_name(u.name, body[:place]) for u in kept}
    calls = calls_within(loop.node, *_REDUCTIONS)
    if not kept or len(calls) != len(kept) or not all(map(_is_along_row, calls)):
        return None
    for update in kept:
        start = starts[update.name]
        if start is None or start.shape or not _is_of_lanes(update, updates, loop, width):
            return None
        is_sum = update.kind in (CarriedKind.SUM, CarriedKind.RESCALED)
        if (is_sum and not start.is_zero) or (
            start.is_integer and update.kind is not CarriedKind.FOLLOWER
        ):
            return None
    if _is_read_otherwise(body, place, loop, kept):
        return None
    ahead = [
        _start_of_lanes(statement, starts, width)
        for statement in with_finite_starts(body[:place], kept)
    ]
    return [
        *ahead,
        _loop_of_lanes(loop, width),
        *_finals(kept, names_within(*body)),
        *body[place + 1 :],
    ]


def _width_of_blocks(loop: Loop, before: Body) -> str:
    """Return the length of the loop's blocks, which have one axis; empty if there are others.

    Args:
        loop: the loop.
        before: statements ahead of it, where a range may stand that it uses.
    """
    sources = list(_made_before(loop, before))
    nodes = [node for part in (loop.node, *sources) for node in nodes_within(part)]
    slices = (node for node in nodes if isinstance(node, cst.Subscript))
    if any("None" in render_code(node) for node in slices):
        return ""
    ends = {
        render_code(end)
        for part in (loop.node, *sources)
        for call in calls_within(part, "tl.arange")
        if (end := argument_of(call, 1, "end")) is not None
    }
    return ends.pop() if len(ends) == 1 else ""


def _made_before(loop: Loop, before: Body) -> Iterator[cst.BaseStatement]:
    """Yield the statements ahead of a loop that make the values which it reads."""
    names = names_within(loop.node)
    for statement in reversed(before):
        binding = single_assignment(statement)
        if binding is not None and binding.target in names:
            names |= names_within(binding.value)
            yield statement


def _is_along_row(call: cst.Call) -> bool:
    axis = argument_of(call, 1, "axis")
    return ("" if axis is None else render_code(axis)) in _ROW_AXES


def _is_of_lanes(update: Carried, updates: dict[str, Carried], loop: Loop, width: str) -> bool:
    """Tell whether an update is a reduction of the same kind, so that lanes can do it apart."""
    element = update.element
    if element is None or update.kind is CarriedKind.FOLD:
        return False
    if update.kind in (CarriedKind.SUM, CarriedKind.RESCALED):
        return _is_sum_of_block(element)
    if update.kind.is_extremum:
        is_own = called_name(element) == update.kind.reduction
        return is_own and len(calls_within(element, *_REDUCTIONS)) == 1
    leader = updates[update.leader].element
    return update.is_first and leader is not None and _is_index(element, leader, loop, width)


def _is_sum_of_block(node: cst.BaseExpression) -> bool:
    """Tell whether an expression is linear in sums of blocks, and has nothing else of blocks."""
    if called_name(node) == "tl.sum":
        inner = call_args(node)[0]
        own = calls_within(inner, *_REDUCTIONS)
        return all(called_name(call) in ("tl.max", "tl.min") for call in own)
    if isinstance(node, cst.BinaryOperation):
        one, two = _is_sum_of_block(node.left), _is_sum_of_block(node.right)
        if isinstance(node.operator, (cst.Multiply, cst.Divide)):
            other = node.right if one else node.left
            is_alone = not calls_within(other, *_REDUCTIONS, "tl.arange")
            return (one or (two and isinstance(node.operator, cst.Multiply))) and is_alone
        return one and two and isinstance(node.operator, (cst.Add, cst.Subtract))
    return False


def _is_index(
    element: cst.BaseExpression, leader: cst.BaseExpression, loop: Loop, width: str
) -> bool:
    """Tell whether a follower is the index of the extremum among the loop's elements."""
    word = "tl.arg" + called_name(leader).removeprefix("tl.")
    if not is_operation(element, cst.Add):
        return False
    sides = [element.left, element.right]
    calls = [side for side in sides if called_name(side) == word]
    if len(calls) != 1:
        return False
    rest = sides[1 - sides.index(calls[0])]
    same = _first_argument(calls[0]) == _first_argument(leader)
    step = render_code(loop.step)
    firsts = [loop.name] if step == width else []
    if step == "1":
        firsts = [f"{loop.name} * {width}", f"{width} * {loop.name}"]
    return same and render_code(rest).strip("()") in firsts


def _first_argument(call: cst.BaseExpression) -> str:
    return compact_code(call_args(call)[0])


def _is_read_otherwise(body: Body, place: int, loop: Loop, kept: Sequence[Carried]) -> bool:
    """Tell whether scalars that become lanes are read where lanes would mean something else."""
    statements = list(walk_statements(loop.body))
    touched = following_names(loop.body, {u.name for u in kept}, _REDUCTIONS)
    plain = [s for s in statements if not isinstance(s, (cst.For, cst.If))]
    others = [s for s in plain if single_assignment(s) is None]
    reads = names_within(*others) if others else set[str]()
    bounds = [s.iter for s in statements if isinstance(s, cst.For)]
    tests = [s.test for s in statements if isinstance(s, cst.If)]
    after_loop = names_within(*body[place + 1 :]) if body[place + 1 :] else set[str]()
    locals_ = touched - {u.name for u in kept}
    between = _read_after_start(body[:place], {u.name for u in kept})
    return bool(
        (reads | names_within(*bounds, *tests)) & touched or after_loop & locals_ or between
    )


def _read_after_start(before: Body, names: set[str]) -> bool:
    """Tell whether a first value is read before the loop."""
    started: set[str] = set()
    for statement in before:
        binding = single_assignment(statement)
        read = names_within(statement if binding is None else binding.value)
        if read & started:
            return True
        started |= {binding.target} & names if binding is not None else set()
    return False


# ------------------------------------------------------------------------------- writing it


def _start_of_lanes(
    statement: cst.BaseStatement, starts: Mapping[str, Start | None], width: str
) -> cst.BaseStatement:
    """Return a scalar's first value as one for each lane."""
    binding = single_assignment(statement)
    if binding is None or starts.get(binding.target) is None:
        return statement
    start = start_of_name(binding.target, [statement])
    if start is None:
        return statement
    changed = parse_statement(f"{binding.target} = {start.full((width,), start.value)}")
    return changed.with_changes(leading_lines=getattr(statement, "leading_lines", ()))


def _loop_of_lanes(loop: Loop, width: str) -> cst.BaseStatement:
    """Return the loop without its reductions."""
    node: cst.CSTNode = loop.node
    while calls := calls_within(node, *_REDUCTIONS):
        last = calls[-1]  # an inner one first
        index = parse_expression(f"tl.arange(0, {width})")
        is_place = called_name(last) in ("tl.argmax", "tl.argmin")
        inner = last.args[0].value
        if not inner.lpar and isinstance(inner, (cst.BinaryOperation, cst.Comparison)):
            inner = inner.with_changes(lpar=[cst.LeftParen()], rpar=[cst.RightParen()])
        node = replace_each(node, [(last, index if is_place else inner)])
    return cst.ensure_type(node, cst.For)


def _finals(kept: Sequence[Carried], taken: set[str]) -> list[cst.BaseStatement]:
    """Return statements that reduce the lanes: what follows an extremum ahead of it."""
    lines: list[str] = []
    end = "_all"
    while any(f"{update.name}{end}" in taken for update in kept):
        end += "_"
    for update in (u for u in kept if u.kind.is_extremum):
        lines.append(f"{update.name}{end} = {update.kind.reduction}({update.name}, axis=0)")
    for update in kept:
        name, leader = update.name, update.leader
        if update.kind is CarriedKind.SUM:
            lines.append(f"{name} = tl.sum({name}, axis=0)")
        elif update.kind is CarriedKind.RESCALED:
            scale = update.scaled(leader, f"{leader}{end}")
            lines.append(f"{name} = tl.sum({name} * {scale}, axis=0)")
        elif update.kind is CarriedKind.FOLLOWER:
            leads = f"{leader} == {leader}{end}"
            # the largest place is of the same type as all, however many bits that has
            places = f"tl.where({leads}, {name}, tl.max({name}, axis=0))"
            lines.append(f"{name} = tl.min({places}, axis=0)")
    lines += [f"{u.name} = {u.name}{end}" for u in kept if u.kind.is_extremum]
    return [parse_statement(line) for line in lines]
