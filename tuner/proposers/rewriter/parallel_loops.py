"""Loops whose trips do not depend on each other become axes of a program's block."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

import libcst as cst

from solkit.tuner.proposers.rewriter._assignments import assignments_in
from solkit.tuner.proposers.rewriter._edit import (
    renamed_function,
    with_params,
)
from solkit.tuner.proposers.rewriter._lift import lifted_body
from solkit.tuner.proposers.rewriter._lift_expressions import CannotLiftError
from solkit.tuner.proposers.rewriter._memory import may_meet, may_write
from solkit.tuner.proposers.rewriter._mutation import Facts, Variant
from solkit.tuner.proposers.rewriter._nodes import (
    Body,
    Loop,
    assigned_names,
    calls_within,
    names_within,
    parse_statements,
    render_code,
    render_module,
    single_assignment,
    statements_of,
    with_body,
)
from solkit.tuner.proposers.rewriter._parse import (
    JitFunction,
    KernelText,
    Launch,
    in_launcher,
    parse_kernel,
)
from solkit.tuner.proposers.rewriter._relaunch import NewLaunch, relaunched
from solkit.tuner.proposers.rewriter._values import argument_bases
from solkit.tuner.proposers.rewriter._variants import launch_variants
from solkit.tuner.proposers.rewriter.operands import with_products
from solkit.tuner.proposers.rewriter.vectorise import vectorised

_LONGEST = 128
"""Trips that become one block; a block of two such axes has as many elements as a program bears."""
_LEAST = 16  # what a product of tiles takes
_MOST_AXES = 2


class ParallelLoops:
    """A loop that stores at other places in each trip, and carries nothing, becomes a block's axis.

    Applies to loops over single elements from zero, up to a size that fits a block; the launcher
    keeps the original for larger ones. Two such loops become a tile, and sums of products within
    them become ``tl.dot``, as of a small matrix a program.
    """

    kind = "loops to axes"
    helps = ("instructions", "wrong pipe", "scalar product", "latency", "extra traffic")

    def variants(self, text: KernelText, facts: Facts) -> Iterator[Variant]:
        """See `Rewrite.variants`."""
        intent = (
            "Trips of loops in {} do not depend on each other; as axes of a block they run at once"
        )
        factors = ("instructions", "latency", "wrong pipe")
        return launch_variants(text, facts, partial(_with_axes, text), intent, *factors)


def _with_axes(text: KernelText, launch: Launch) -> str:
    """Return the file with up to two loops of a function as axes; empty if it has none."""
    name, sizes = launch.function.name, []
    function, widths = launch.function, []
    for _ in range(_MOST_AXES):
        loop = next((e for e in function.loops if _is_parallel(e, function, launch)), None)
        size = None if loop is None else in_launcher(loop.stop, launch)
        if loop is None or size is None:
            break
        width = text.fresh(f"{loop.name.upper()}_WIDTH")
        while width in widths:
            width += "_"
        try:
            function = _with_axis(function, loop, width, text)
        except CannotLiftError:
            break
        widths.append(width)
        sizes.append(render_code(size))
    if not widths:
        return ""
    fresh = text.fresh(f"{name}_blocks")
    node = with_params(renamed_function(function, fresh, function.body), constants=widths)
    sized = {
        width: f"max({_LEAST}, triton.next_power_of_2({size}))"
        for width, size in zip(widths, sizes, strict=True)
    }
    limits = [size for size in dict.fromkeys(sizes) if not _is_short(size)]
    condition = " and ".join(f"{size} <= {_LONGEST}" for size in limits)
    source = relaunched(text, NewLaunch(launch, node, arguments=sized), condition=condition)
    return _with_products(source, fresh)


def _is_short(size: str) -> bool:
    return size.isdigit() and int(size) <= _LONGEST


def _is_parallel(loop: Loop, function: JitFunction, launch: Launch) -> bool:
    """Tell whether a loop's trips are independent: it stores, and hands on nothing."""
    if render_code(loop.start) != "0" or render_code(loop.step) != "1":
        return False
    stores = calls_within(loop.node, "tl.store")
    if not stores or len(stores) < sum(map(may_write, calls_within(loop.node))):
        return False
    place = function.body.index(loop.node)
    outside = set(assigned_names(*function.body[:place])) | set(function.params)
    after = names_within(*function.body[place + 1 :])
    own = set(assigned_names(*loop.body))
    if own & (outside | after) or _is_read_first(loop.body, own, set()):
        return False
    dependent = _dependents(loop)
    if not all(names_within(call.args[0].value) & dependent for call in stores):
        return False
    return not _loads_what_it_stores(loop, launch)


def _is_read_first(body: Body, own: set[str], written: set[str]) -> bool:
    """Tell whether a trip reads a name ahead of assigning it: what another trip left."""
    for statement in body:
        if isinstance(statement, cst.For):
            header = names_within(statement.iter)
            within = written | names_within(statement.target)
            if header & own - written or _is_read_first(statements_of(statement), own, within):
                return True
            written |= set(assigned_names(statement))
            continue
        binding = single_assignment(statement)
        if names_within(statement if binding is None else binding.value) & own - written:
            return True
        written |= set(assigned_names(statement))
    return False


def _dependents(loop: Loop) -> set[str]:
    dependent = {loop.name}
    for _ in range(2):  # inner loops hand names on, too
        for binding in assignments_in(loop.body):
            if names_within(binding.value) & dependent:
                dependent.add(binding.target)
    return dependent


def _loads_what_it_stores(loop: Loop, launch: Launch) -> bool:
    """Tell whether a loop may load from a tensor that it stores to."""
    stored, loaded = (
        frozenset[str]().union(
            *(argument_bases(launch, call) for call in calls_within(loop.node, name))
        )
        for name in ("tl.store", "tl.load")
    )
    return bool(loaded) and may_meet(stored, loaded)


def _with_axis(function: JitFunction, loop: Loop, width: str, text: KernelText) -> JitFunction:
    """Return a function with a loop's statements for all its trips at once.

    Raises:
        CannotLiftError: the loop has something that cannot be lifted.
    """
    place = function.body.index(loop.node)
    mask = f"{loop.name}_inside"
    while mask in function.names:
        mask += "_"
    head = parse_statements(
        f"{loop.name} = tl.arange(0, {width})\n{mask} = {loop.name} < {render_code(loop.stop)}\n"
    )
    before = function.body[:place]
    # names ahead of the loop keep their axes: the body is lifted together with them
    lifted = lifted_body([*before, *loop.body], [loop.name], width, mask, text.functions)
    body = [*lifted[: len(before)], *head, *lifted[len(before) :], *function.body[place + 1 :]]
    constants = frozenset({*function.constants, width})
    return replace(function, node=with_body(function.node, body), constants=constants)


def _with_products(source: str, name: str) -> str:
    """Return the file with loops over single elements in blocks, and products of tiles."""
    text = parse_kernel(source)
    if text is None:
        return source
    own = text.launches_of(name)
    blocks = parse_kernel(vectorised(text, own[0])) if own else None
    if blocks is None:
        return source
    return with_products(blocks) or render_module(blocks.tree)
