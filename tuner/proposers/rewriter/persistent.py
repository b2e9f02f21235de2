"""A fixed number of programs, each of which takes one tile after another."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from solkit.tuner.proposers.rewriter._base import Facts, Variant
from solkit.tuner.proposers.rewriter._edit import (
    Parameter,
    arguments_of,
    changed,
    launch_line,
    options_of,
    with_params,
)
from solkit.tuner.proposers.rewriter._file import KernelText, Launch
from solkit.tuner.proposers.rewriter._programs import axis_name
from solkit.tuner.proposers.rewriter._syntax import (
    assigned,
    assignment,
    calls,
    code,
    grouped,
    line,
    walk,
    with_body,
)

__all__ = ["Persistent"]

_PER_SM = (1, 2, 4, 8, 16)
_FEW = 4
_AXES = 2


class Persistent:
    """Persistent programs: as many as the multiprocessors run at once share all tiles.

    Applies to grids of one or two axes whose indices are named, in functions that have no
    ``return`` and assign none of their parameters. What is computed ahead of the first use of an
    index is computed once.
    """

    kind = "persistent"
    helps = ("dispatch", "tail", "part-filled wave", "launch", "uneven blocks")

    def variants(self, text: KernelText, facts: Facts) -> Iterator[Variant]:
        """See `Rewrite.variants`."""
        for launch in text.single:
            source = _persistent(text, launch)
            if source:
                why = facts.because("dispatch", "tail")
                yield Variant(
                    source,
                    f"{facts.sms} multiprocessors can share the tiles of {launch.function.name} "
                    f"among programs that stay{why}.",
                )


def _persistent(text: KernelText, launch: Launch) -> str:
    function, axes = launch.function, launch.axes
    if axes is None or not 1 <= len(axes) <= _AXES:
        return ""
    indices = [axis_name(function, axis) for axis in range(len(axes))]
    program_ids = calls(function.node, "tl.program_id")
    returns = any(code(statement) == "return" for statement in walk(function.body))
    assigns = set(assigned(*function.body)) & set(function.params)
    if not all(indices) or len(program_ids) != len(indices) or returns or assigns:
        return ""
    if calls(function.node, "tl.num_programs") or calls(function.node, "tl.swizzle2d"):
        return ""
    tensor = _tensor(launch)
    if not tensor:
        return ""
    counts = [text.fresh(f"n_{name}") for name in indices]
    per_sm = text.fresh("PROGRAMS_PER_SM")
    body = _looped(function.body, indices, counts, text.fresh("tile"))
    node = with_params(with_body(function.node, body), added=counts)
    sizes = [code(axis) for axis in axes]
    arguments = {**arguments_of(launch), **dict(zip(counts, sizes, strict=True))}
    order = [param.name.value for param in node.params.params]
    total = " * ".join(code(grouped(axis)) for axis in axes)
    sms = text.fresh("sms")
    device = f"torch.cuda.get_device_properties({tensor}.device)"
    launched = [
        line(f"{sms} = {device}.multi_processor_count").with_changes(
            leading_lines=launch.statement.leading_lines
        ),
        launch_line(
            function.name,
            f"(min({total}, {sms} * {per_sm}),)",
            {name: arguments[name] for name in order if name in arguments},
            options_of(launch),
            function.constants,
        ),
    ]
    return changed(
        text,
        functions={function.name: node},
        launches=[(launch.statement, launched)],
        parameters=[Parameter(per_sm, _FEW, _PER_SM)],
    )


def _tensor(launch: Launch) -> str:
    own = [p.name.value for p in launch.launcher.params.params]
    passed = [code(value) for value in launch.arguments.values()]
    return next((name for name in own if name in passed), "")


def _looped(
    body: list[cst.BaseStatement], indices: list[str], counts: list[str], tile: str
) -> list[cst.BaseStatement]:
    total = " * ".join(counts)
    loop = line(f"for {tile} in range(tl.program_id(0), {total}, tl.num_programs(0)):\n    pass\n")
    if len(indices) == 1:
        head = [line(f"{indices[0]} = {tile}")]
    else:
        head = [
            line(f"{indices[0]} = {tile} % {counts[0]}"),
            line(f"{indices[1]} = {tile} // {counts[0]}"),
        ]
    rest = [s for s in body if (a := assignment(s)) is None or a.target not in indices]
    return [with_body(loop, [*head, *rest])]
