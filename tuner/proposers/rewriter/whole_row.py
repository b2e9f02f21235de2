"""Loops over one row become one block that holds the row in registers."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import libcst as cst

from solkit.tuner.proposers.rewriter._edit import (
    params_of_original,
    renamed_function,
    row_warps,
    with_fixed_parameters,
)
from solkit.tuner.proposers.rewriter._masks import unmasked_blocks
from solkit.tuner.proposers.rewriter._memory import Pointers
from solkit.tuner.proposers.rewriter._mutation import Facts, Variant
from solkit.tuner.proposers.rewriter._nodes import (
    Body,
    called_name,
    calls_within,
    compact_code,
    count_uses,
    integer_literal,
    names_within,
    nodes_within,
    parenthesized,
    parse_expression,
    range_loop,
    render_code,
    replace_each,
    statements_of,
    substitute_names,
    walk_statements,
    with_body,
)
from solkit.tuner.proposers.rewriter._parse import (
    KernelText,
    Launch,
    in_launcher,
    launcher_definition,
    parse_kernel,
)
from solkit.tuner.proposers.rewriter._relaunch import NewLaunch, relaunched
from solkit.tuner.proposers.rewriter._roots import ALLOCATORS
from solkit.tuner.proposers.rewriter._values import (
    BlockedLoop,
    argument_aliases,
    as_blocked_loop,
    is_runtime_size,
    reads_other_trips,
    whole_values,
    without_repeats,
    without_zeros,
)

_MOST_HELD = 32 * 1024
"""Elements that a program holds: 32 values for each of the 1024 threads that a block may have,
half of the registers that they share."""


class WholeRow:
    """All loops over a row in blocks of one constant become one block as long as the row.

    Applies where a function has such loops over the same bound, the constant is in no grid, and a
    load is repeated between them. The original launch stays where a program would hold more than
    32768 elements, and without masks for rows that are no power of two.
    """

    kind = "whole row"
    helps = ("extra traffic", "instructions", "latency", "one trip at a time", "waits for loads")

    def variants(self, text: KernelText, facts: Facts) -> Iterator[Variant]:
        """See `Rewrite.variants`."""
        for launch in text.single:
            loops = _row_loops(launch)
            if loops and (rewritten := _rewritten(text, launch, loops, facts)):
                yield rewritten


def _row_loops(launch: Launch) -> list[BlockedLoop]:
    """Return all loops of the function, if all are over one row."""
    function = launch.function
    nodes = [node for node in walk_statements(function.body) if isinstance(node, cst.For)]
    inner = [node for node in nodes if not _has_loop(node)]
    ranges = [loop for node in inner if (loop := range_loop(node)) is not None]
    loops = [b for loop in ranges if (b := as_blocked_loop(loop, function)) is not None]
    if (
        len(loops) != len(inner)
        or len({(loop.block, render_code(loop.bound)) for loop in loops}) != 1
        or any(reads_other_trips(launch, loop.loop.node) for loop in loops)
    ):
        return []
    reads = [
        render_code(call.args[0].value)
        for loop in loops
        for s in loop.loop.body
        for call in _reads_memory(s)
    ]
    is_repeated = len(set(reads)) < len(reads) or _shares_loads(launch)
    if len(loops) < 2 or not is_repeated or not is_runtime_size(loops[0].bound, function):
        return []
    grid = launch.axes
    block = launch.arguments.get(loops[0].block)
    in_grid = (
        grid is None
        or block is None
        or any(render_code(block) in _names_and_arguments(axis) for axis in grid)
    )
    return [] if in_grid else loops


def _shares_loads(launch: Launch) -> bool:
    """Tell whether one block for each loop leaves fewer loads, as they are of the same elements."""
    whole = _in_one_block(launch.function.body)
    once = without_repeats(whole, argument_aliases(launch), launch.function.params)
    counts = (sum(len(_reads_memory(s)) for s in body) for body in (once, whole))
    return next(counts) < next(counts)


def _has_loop(node: cst.For) -> bool:
    """Tell whether a loop has loops within it: steps of a bisection, each over a row."""
    return any(isinstance(inner, cst.For) for inner in walk_statements(statements_of(node)))


def _held_blocks(launch: Launch, loops: Sequence[BlockedLoop]) -> list[cst.BaseExpression]:
    """Return what the length of a row is multiplied by for all that is held, in the launcher.

    That is how many loads are repeated, and how many rows their blocks have.
    """
    values = whole_values(launch.function.body)
    reads = [
        compact_code(substitute_names(call.args[0].value, values))
        for loop in loops
        for statement in loop.loop.body
        for call in _reads_memory(statement)
    ]
    held = {read: parse_expression(read) for read in reads if reads.count(read) > 1}
    lengths = {
        render_code(call.args[-1].value): call.args[-1].value
        for pointer in held.values()
        for call in calls_within(pointer, "tl.arange")
    }
    rows = (
        in_launcher(length, launch) for name, length in lengths.items() if name != loops[0].block
    )
    factors = [row for row in rows if row is not None]
    return [*factors, cst.Integer(str(len(held)))] if len(held) > 1 else factors


def _condition(launch: Launch, block: str, size: str, held: Sequence[cst.BaseExpression]) -> str:
    """Return when a program holds its rows; without masks a block must be as long as the row."""
    whole = " * ".join([size, *(render_code(parenthesized(part)) for part in held)])
    short = f"{whole} <= {_MOST_HELD}"
    is_masked = block not in unmasked_blocks(launch)
    return short if is_masked else f"{short} and {size} == triton.next_power_of_2({size})"


def _reads_memory(statement: cst.BaseStatement) -> list[cst.Call]:
    return [call for call in calls_within(statement, "tl.load") if call.args]


def _names_and_arguments(node: cst.BaseExpression) -> set[str]:
    return names_within(node) | {
        render_code(arg.value) for call in calls_within(node) for arg in call.args
    }


def _without_unread_stores(body: Body, launch: Launch) -> list[cst.BaseStatement]:
    """Return statements without stores to tensors that only the launch has, and no longer reads."""
    params = launch.function.params
    pointers = Pointers(body, set(params) - set(launch.function.constants))
    stores = {
        id(statement): pointers.bases(call.args[0].value)
        for statement in body
        if isinstance(statement, cst.SimpleStatementLine)
        for call in calls_within(statement, "tl.store")
    }
    for name in [name for name in params if _is_scratch(launch, name)]:
        rest = [s for s in body if stores.get(id(s)) != frozenset({name})]
        if name not in names_within(*map(_without_types, rest)):
            body = rest
    return list(body)


def _without_types(statement: cst.BaseStatement) -> cst.BaseStatement:
    """Return a statement without types of tensors' elements: they read no memory."""
    pairs = [
        (node, cst.Name("dtype"))
        for node in nodes_within(statement)
        if isinstance(node, cst.Attribute) and render_code(node).endswith(".dtype.element_ty")
    ]
    return replace_each(statement, pairs)


def _is_scratch(launch: Launch, name: str) -> bool:
    """Tell whether a parameter's tensor is allocated for the launch alone."""
    argument = launch.arguments.get(name)
    if not isinstance(argument, cst.Name) or argument_aliases(launch)[name]:
        return False
    definition = launcher_definition(argument.value, launch.launcher)
    uses = count_uses(launch.launcher, argument.value)
    return called_name(definition or argument) in ALLOCATORS and uses == 2


def _in_one_block(body: Body) -> list[cst.BaseStatement]:
    """Return statements with the only trip of each innermost loop instead of it."""
    result: list[cst.BaseStatement] = []
    for statement in body:
        loop = range_loop(statement)
        if not isinstance(statement, cst.For) or loop is None:
            result.append(statement)
        elif _has_loop(statement):
            result.append(with_body(statement, _in_one_block(loop.body)))
        else:
            result += without_zeros(loop.body, loop.name)
    return result


def _rewritten(
    text: KernelText, launch: Launch, loops: list[BlockedLoop], facts: Facts
) -> Variant | None:
    function, block = launch.function, loops[0].block
    bound = in_launcher(loops[0].bound, launch)
    held = _held_blocks(launch, loops)
    if bound is None:
        return None
    sizes = (integer_literal(part) or facts.size(part, launch) or 1 for part in (bound, *held))
    if math.prod(sizes) > _MOST_HELD:
        return None
    body = _in_one_block(function.body)
    body = without_repeats(body, argument_aliases(launch), function.params)
    body = _without_unread_stores(body, launch)
    name = text.fresh(f"{function.name}_whole_row")
    size = render_code(bound)
    values, warps = row_warps(text, size, facts)
    source = relaunched(
        text,
        NewLaunch(
            launch,
            renamed_function(function, name, body),
            arguments={block: f"triton.next_power_of_2({size})"},
            options={"num_warps": warps},
        ),
        condition=_condition(launch, block, size, held),
        parameters=[values],
    )
    source = with_fixed_parameters(
        parse_kernel(source) or text, params_of_original(launch, block, "num_warps")
    )
    trips = len(loops)
    why = facts.explain_factors("extra traffic", "instructions", "latency")
    return Variant(
        source,
        f"{function.name} walks over each row {trips} times; it can read the row once and keep it "
        f"in registers{why}.",
    )
