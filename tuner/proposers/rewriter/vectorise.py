"""Loops over single elements become loops over blocks of contiguous ones."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial

import libcst as cst

from solkit.tuner.proposers.rewriter._assignments import assignments_in
from solkit.tuner.proposers.rewriter._edit import (
    Parameter,
    with_params,
)
from solkit.tuner.proposers.rewriter._lift import lifted_loop
from solkit.tuner.proposers.rewriter._lift_expressions import CannotLiftError
from solkit.tuner.proposers.rewriter._mutation import Facts, Variant
from solkit.tuner.proposers.rewriter._nodes import (
    Body,
    Loop,
    calls_within,
    integer_literal,
    names_within,
    range_loop,
    render_code,
    running_updates,
    statements_of,
    walk_statements,
    with_body,
)
from solkit.tuner.proposers.rewriter._parse import JitFunction, KernelText, Launch
from solkit.tuner.proposers.rewriter._relaunch import NewLaunch, relaunched
from solkit.tuner.proposers.rewriter._running_values import RunningKind, combiner
from solkit.tuner.proposers.rewriter._values import reads_other_trips
from solkit.tuner.proposers.rewriter._variants import launch_variants
from solkit.tuner.proposers.rewriter.flat_nests import with_flat_nests
from solkit.tuner.proposers.rewriter.loop_hoisting import hoist_invariants

_BLOCKS: tuple[int, ...] = (64, 128, 256, 512, 1024, 2048, 4096)
_BLOCK = 1024
_TALL: tuple[int, ...] = (4, 8, 16, 32, 64, 128)
_TALL_BLOCK = 32
_LEAST_OF_PRODUCT = 16  # along the axis that is summed
_MULTIPLY = "tl.dot("


class Vectorise:
    """Loops over single elements become loops over blocks of them, with a mask for the rest.

    Applies to loops over single elements, or over every n-th of them; of loops within each other,
    to the outermost that can be. The body loads from places that the loop's variable decides, or
    through pointers that move on by the same each trip. It carries only sums, maxima and minima
    from trip to trip, with their places, and online softmax, and reads nothing that other trips
    write. What it stores of sums, products, extrema and linear recurrences so far becomes a scan.
    A sum of products of two blocks becomes ``tl.dot``.
    """

    kind = "vectorise"
    helps = ("extra traffic", "instructions", "latency", "one trip at a time", "waits for loads")

    def variants(self, text: KernelText, facts: Facts) -> Iterator[Variant]:
        """See `Rewrite.variants`."""
        for launch in text.single:
            first, plain = vectorised(text, launch), _with_blocks_of(text, launch)
            for rewritten in filter(None, dict.fromkeys((first, plain))):
                why = facts.explain_factors("instructions", "latency", "extra traffic")
                yield Variant(
                    rewritten,
                    f"{launch.function.name} takes one element a trip of its loop; blocks of "
                    f"contiguous elements keep more loads under way{why}.",
                )


class Chunks:
    """A state that trips add outer products to is made for blocks of trips, as linear attention's.

    Applies to loops as of "vectorise" that multiply such a state by a number, or by 1, add an outer
    product of two vectors, and read the state only by sums of its product with a vector along one
    axis. All of a block's trips are then products of matrices (`_chunks`).
    """

    kind = "chunks"
    helps = ("wrong pipe", "instructions", "latency", "one trip at a time", "scalar product")

    def variants(self, text: KernelText, facts: Facts) -> Iterator[Variant]:
        """See `Rewrite.variants`."""
        intent = "{} adds outer products to a state; blocks of trips are products of matrices"
        change = partial(_with_blocks_of, text, chunks=True)
        return launch_variants(text, facts, change, intent, "wrong pipe", "latency")


def vectorised(text: KernelText, launch: Launch) -> str:
    """Return the file with a launch's loops over single elements turned into loops over blocks.

    Loops within each other are one where that gives a product. Else the outermost that can be is
    lifted, and one over a few taps stays.
    """
    flat = vectorised_nests(text, launch)
    is_product = _MULTIPLY in flat and _MULTIPLY not in render_code(launch.function.node)
    return flat if is_product else _with_blocks_of(text, launch)


def vectorised_nests(text: KernelText, launch: Launch) -> str:
    """Return the file whose loops within each other are one loop over blocks; empty if none are."""
    node = with_flat_nests(launch.function)
    if node is None:
        return ""
    return _with_blocks_of(text, replace(launch, function=replace(launch.function, node=node)))


def _with_blocks_of(text: KernelText, launch: Launch, chunks: bool = False) -> str:
    """Return the file with a launch's loops over blocks, as of `_Blocks`; empty if none can be."""
    function = launch.function
    tall = any(calls_within(function.node, "tl.arange"))
    width = text.fresh("BLOCK_R" if tall else "BLOCK")
    combiners = {kind: text.fresh(f"running_{kind.value}") for kind in RunningKind}
    blocks = _Blocks(text, launch, width, combiners, chunks)
    body, done = _with_blocks(function.body, [], [], blocks)
    if not done:
        return ""
    values, default = (_TALL, _TALL_BLOCK) if tall else (_BLOCKS, _BLOCK)
    node = with_params(with_body(function.node, body), constants=[width])
    if chunks:  # what follows from factors that never change
        node = hoist_invariants(replace(function, node=node))
    if calls_within(node, "tl.dot"):
        values = tuple(value for value in values if value >= _LEAST_OF_PRODUCT)
    read = names_within(node)
    joins = [combiner(kind, name) for kind, name in combiners.items() if name in read]
    return relaunched(
        text,
        NewLaunch(launch, node, arguments={width: width}),
        parameters=[Parameter(width, default, values)],
        helpers=[join for join in joins if join is not None],
    )


@dataclass(frozen=True)
class _Blocks:
    """Plan of turning loops of a launch's function into loops over blocks of a width.

    Attributes:
        text: the file.
        launch: of the function.
        width: the constant that is the length of a block.
        combiners: names of functions that join elements of scans.
        chunks: whether only loops change that have a state of outer products.
    """

    text: KernelText
    launch: Launch
    width: str
    combiners: Mapping[RunningKind, str]
    chunks: bool

    def lift(self, loop: Loop, before: Body, after: Body) -> cst.BaseStatement | None:
        """Return a loop over blocks; ``None`` if that cannot be."""
        function = self.launch.function
        if not _takes_one(loop, function) or not _loads_move(loop):
            return None
        if reads_other_trips(self.launch, loop.node):
            return None
        fresh = self.text.fresh(f"{loop.name}_start")
        try:
            parts = self.width, fresh, self.text.functions, after, self.combiners, self.chunks
            return lifted_loop(before, loop.node, *parts)
        except CannotLiftError:
            return None


def _with_blocks(
    body: Body, before: Body, after: Body, blocks: _Blocks
) -> tuple[list[cst.BaseStatement], int]:
    """Return statements with loops over blocks, and how many there are.

    Args:
        body: the function's statements, or those of a loop.
        before: what runs ahead of them.
        after: what may run later.
        blocks: the width, and where it is.
    """
    result: list[cst.BaseStatement] = []
    done = 0
    for index, statement in enumerate(body):
        ahead, behind = [*before, *body[:index]], [*body[index + 1 :], *after]
        loop = range_loop(statement)
        is_nest = any(isinstance(inner, cst.For) for inner in statements_of(statement))
        lifted = None
        if loop is not None and not ((is_nest or after) and _is_short(loop, blocks.launch)):
            lifted = blocks.lift(loop, ahead, behind)
        if lifted is not None:
            result.append(lifted)
            done += 1
            continue
        if (
            is_nest
            and isinstance(statement, cst.For)
            and not reads_other_trips(blocks.launch, statement)
        ):
            own = statements_of(statement)
            inner, count = _with_blocks(own, ahead, [*own, *behind], blocks)
            statement, done = with_body(statement, inner) if count else statement, done + count
        result.append(statement)
    return result, done


def _is_short(loop: Loop, launch: Launch) -> bool:
    """Tell whether a loop has too few trips for a product, as far as its launch says."""
    stop = launch.arguments.get(render_code(loop.stop), loop.stop)
    trips = integer_literal(stop)
    return trips is not None and trips < _LEAST_OF_PRODUCT


def _takes_one(loop: Loop, function: JitFunction) -> bool:
    """Tell whether a trip takes one element: a step of 1, or of parts that others take between."""
    blocks = {render_code(call.args[-1].value) for call in calls_within(loop.node, "tl.arange")}
    return render_code(loop.step) == "1" or (
        render_code(loop.step) in function.constants
        and render_code(loop.step) not in blocks
        and bool(calls_within(loop.start, "tl.program_id"))
    )


def _loads_move(loop: Loop) -> bool:
    """Tell whether a loop's loads change place from trip to trip."""
    dependent = {loop.name, *(binding.target for binding in running_updates(loop).values())}
    for binding in assignments_in(walk_statements(loop.body)):
        if names_within(binding.value) & dependent:
            dependent.add(binding.target)
    return any(names_within(call) & dependent for call in calls_within(loop.node, "tl.load"))
