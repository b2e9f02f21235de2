"""Loops over single elements become loops over blocks of contiguous ones."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from solkit.tuner.proposers.rewriter._edit import (
    Parameter,
    arguments_of,
    changed_text,
    launch_line,
    options_of,
    with_params,
)
from solkit.tuner.proposers.rewriter._lift import CannotLiftError, lifted_loop
from solkit.tuner.proposers.rewriter._mutation import Facts, Variant
from solkit.tuner.proposers.rewriter._parse import (
    JitFunction,
    KernelText,
    Launch,
    Loop,
    calls_within,
    names_within,
    range_loop,
    render_code,
    running_updates,
    single_assignment,
    statements_of,
    with_body,
)
from solkit.tuner.proposers.rewriter._values import reads_other_trips

__all__ = ["Vectorise"]

_BLOCKS: tuple[int, ...] = (64, 128, 256, 512, 1024, 2048, 4096)
_BLOCK = 1024
_TALL: tuple[int, ...] = (4, 8, 16, 32, 64, 128)
_TALL_BLOCK = 32
_LEAST_OF_PRODUCT = 16  # along the axis that is summed


class Vectorise:
    """Loops over single elements become loops over blocks of them, with a mask for the rest.

    Applies to loops over single elements, or over every n-th of them. The body loads from places
    that the loop's variable decides, or through pointers that move on by the same each trip. It
    carries only sums, maxima and minima from trip to trip, online softmax among them, and reads
    nothing that other trips write. A sum of
    products of two blocks becomes ``tl.dot``.
    """

    kind = "vectorise"
    helps = ("extra traffic", "instructions", "latency", "one trip at a time", "waits for loads")

    def variants(self, text: KernelText, facts: Facts) -> Iterator[Variant]:
        """See `Rewrite.variants`."""
        for launch in text.single:
            rewritten = vectorised(text, launch)
            if rewritten:
                why = facts.explain_factors("instructions", "latency", "extra traffic")
                yield Variant(
                    rewritten,
                    f"{launch.function.name} takes one element a trip of its loop; blocks of "
                    f"contiguous elements keep more loads under way{why}.",
                )


def vectorised(text: KernelText, launch: Launch) -> str:
    """Return the file with a launch's loops over single elements turned into loops over blocks."""
    function = launch.function
    scalar = [
        loop.node
        for loop in function.loops
        if _takes_one(loop, function)
        and _loads_move(loop)
        and not reads_other_trips(launch, loop.node)
    ]
    if not scalar:
        return ""
    tall = any(calls_within(function.node, "tl.arange"))
    width = text.fresh("BLOCK_R" if tall else "BLOCK")
    body: list[cst.BaseStatement] = []
    done = 0
    for index, statement in enumerate(function.body):
        loop = range_loop(statement)
        if loop is None or loop.node not in scalar:
            body.append(statement)
            continue
        try:
            before, after = function.body[:index], function.body[index + 1 :]
            fresh = text.fresh(f"{loop.name}_start")
            lifted = lifted_loop(before, loop.node, width, fresh, text.functions, after)
        except CannotLiftError:
            body.append(statement)
            continue
        body.append(lifted)
        done += 1
    if not done:
        return ""
    arguments = {**arguments_of(launch), width: width}
    constants = {*function.constants, width}
    statement = launch_line(
        function.name, render_code(launch.grid), arguments, options_of(launch), constants
    )
    values, default = (_TALL, _TALL_BLOCK) if tall else (_BLOCKS, _BLOCK)
    node = with_params(with_body(function.node, body), constants=[width])
    if calls_within(node, "tl.dot"):
        values = tuple(value for value in values if value >= _LEAST_OF_PRODUCT)
    kept = statement.with_changes(leading_lines=launch.statement.leading_lines)
    return changed_text(
        text,
        functions={function.name: node},
        launches=[(launch.statement, [kept])],
        parameters=[Parameter(width, default, values)],
    )


def _takes_one(loop: Loop, function: JitFunction) -> bool:
    """Tell whether a trip takes one element: a step of 1, or of parts that others take between."""
    blocks = {render_code(call.args[-1].value) for call in calls_within(loop.node, "tl.arange")}
    return render_code(loop.step) == "1" or (
        render_code(loop.step) in function.constants
        and render_code(loop.step) not in blocks
        and bool(calls_within(loop.start, "tl.program_id"))
    )


def _loads_move(loop: Loop) -> bool:
    """Tell whether a loop's loads change place from trip to trip, and it has no loop within."""
    dependent = {loop.name, *(binding.target for binding in running_updates(loop).values())}
    for statement in statements_of(loop.node):
        if isinstance(statement, cst.For):
            return False
        binding = single_assignment(statement)
        if binding is not None and names_within(binding.value) & dependent:
            dependent.add(binding.target)
    return any(names_within(call) & dependent for call in calls_within(loop.node, "tl.load"))
