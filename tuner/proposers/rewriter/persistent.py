"""A fixed number of programs, each of which takes one tile after another."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import libcst as cst

from solkit.tuner.proposers.rewriter._assignments import without_assignments
from solkit.tuner.proposers.rewriter._edit import (
    Parameter,
    axis_name,
    device_tensor,
    with_named_programs,
    with_params,
)
from solkit.tuner.proposers.rewriter._mutation import Facts, Variant
from solkit.tuner.proposers.rewriter._nodes import (
    assigned_names,
    calls_within,
    compound_statement,
    parenthesized,
    parse_statement,
    render_code,
    walk_statements,
    with_body,
)
from solkit.tuner.proposers.rewriter._parse import KernelText, Launch, parse_kernel
from solkit.tuner.proposers.rewriter._relaunch import NewLaunch, relaunched
from solkit.tuner.proposers.rewriter._variants import launch_variants
from solkit.tuner.proposers.rewriter.tile_constants import lifted_constants

_PER_SM = (1, 2, 4, 8, 16)
_FEW = 4
_AXES = 2


class Persistent:
    """Persistent programs: as many as the multiprocessors run at once share all tiles.

    Applies to grids of one or two axes, in functions that have no ``return`` and assign none of
    their parameters. What is computed ahead of the first use of an index is computed once.
    Constants become parameters first: how many tiles there are must follow from the same numbers as
    the blocks.
    """

    kind = "persistent"
    helps = ("dispatch", "tail", "part-filled wave", "launch", "uneven blocks")

    def variants(self, text: KernelText, facts: Facts) -> Iterator[Variant]:
        """See `Rewrite.variants`."""
        lifted = parse_kernel(lifted_constants(text) or "") or text
        intent = f"{facts.sms} multiprocessors can share the tiles of {{}} among programs that stay"
        persistent = partial(_persistent, lifted)
        return launch_variants(lifted, facts, persistent, intent, "dispatch", "tail")


def _persistent(text: KernelText, launch: Launch) -> str:
    launch = with_named_programs(launch)
    function, axes = launch.function, launch.axes
    if axes is None or not 1 <= len(axes) <= _AXES:
        return ""
    indices = [axis_name(function, axis) for axis in range(len(axes))]
    program_ids = calls_within(function.node, "tl.program_id")
    returns = any(
        render_code(statement) == "return" for statement in walk_statements(function.body)
    )
    assigns = set(assigned_names(*function.body)) & set(function.params)
    if not all(indices) or len(program_ids) != len(indices) or returns or assigns:
        return ""
    if calls_within(function.node, "tl.num_programs") or calls_within(
        function.node, "tl.swizzle2d"
    ):
        return ""
    tensor = device_tensor(launch)
    if not tensor:
        return ""
    counts = [text.fresh(f"n_{name}") for name in indices]
    per_sm = text.fresh("PROGRAMS_PER_SM")
    body = _loop_over_programs(function.body, indices, counts, text.fresh("tile"))
    node = with_params(with_body(function.node, body), added=counts)
    total = " * ".join(render_code(parenthesized(axis)) for axis in axes)
    sms = text.fresh("sms")
    device = f"torch.cuda.get_device_properties({tensor}.device)"
    return relaunched(
        text,
        NewLaunch(
            launch,
            node,
            grid=f"(min({total}, {sms} * {per_sm}),)",
            arguments=dict(zip(counts, map(render_code, axes), strict=True)),
        ),
        before=[parse_statement(f"{sms} = {device}.multi_processor_count")],
        parameters=[Parameter(per_sm, _FEW, _PER_SM)],
    )


def _loop_over_programs(
    body: list[cst.BaseStatement], indices: list[str], counts: list[str], tile: str
) -> list[cst.BaseStatement]:
    total = " * ".join(counts)
    over = f"range(tl.program_id(0), {total}, tl.num_programs(0))"
    if len(indices) == 1:
        head = [parse_statement(f"{indices[0]} = {tile}")]
    else:
        head = [
            parse_statement(f"{indices[0]} = {tile} % {counts[0]}"),
            parse_statement(f"{indices[1]} = {tile} // {counts[0]}"),
        ]
    rest = without_assignments(body, indices)
    return [compound_statement(f"for {tile} in {over}", [*head, *rest])]
