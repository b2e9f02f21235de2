"""Hoisting: code that a loop computes again on each trip is computed once, ahead of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import libcst as cst

from solkit.tuner.proposers.rewriter._base import Facts, Variant
from solkit.tuner.proposers.rewriter._edit import changed
from solkit.tuner.proposers.rewriter._file import JitFunction, KernelText
from solkit.tuner.proposers.rewriter._syntax import (
    assigned,
    assignment,
    calls,
    loop_of,
    names,
    with_body,
)
from solkit.tuner.proposers.rewriter._values import base_of

__all__ = ["Hoist"]

_WRITES = ("tl.store", "tl.atomic_add", "tl.atomic_max", "tl.atomic_min", "tl.atomic_cas")


class Hoist:
    """Loads and computation that do not depend on a loop move ahead of it.

    Applies to names that a loop's body assigns once, from nothing that the body assigns; loads only
    if the loop writes nothing, or through another pointer that no other parameter shares.
    """

    kind = "hoist"
    helps = ("instructions", "latency", "extra traffic")

    def variants(self, text: KernelText, facts: Facts) -> Iterator[Variant]:
        """See `Rewrite.variants`."""
        new = {}
        for name, function in text.functions.items():
            body, moved = _hoisted(function)
            if moved:
                new[name] = with_body(function.node, body)
        if new:
            why = facts.because("instructions", "latency")
            yield Variant(
                changed(text, functions=new),
                f"Loops of {', '.join(new)} repeat what is the same on each trip{why}.",
            )


def _hoisted(function: JitFunction) -> tuple[list[cst.BaseStatement], bool]:
    statements: list[cst.BaseStatement] = []
    moved = False
    for statement in function.body:
        loop = loop_of(statement)
        if loop is None:
            statements.append(statement)
            continue
        ahead, rest = _parted(loop.body, loop.name, function)
        useful = any(calls(statement) for statement in ahead)
        if useful:
            statements += ahead
            statement = with_body(statement, rest)
            moved = True
        statements.append(statement)
    return statements, moved


def _parted(
    body: Sequence[cst.BaseStatement], variable: str, function: JitFunction
) -> tuple[list[cst.BaseStatement], list[cst.BaseStatement]]:
    """Return the statements that may move ahead, and the others."""
    written = assigned(*body)
    changing = {variable, *written}
    stored = {
        base_of(call.args[0].value, function.params) for s in body for call in calls(s, *_WRITES)
    }
    ahead: list[cst.BaseStatement] = []
    rest: list[cst.BaseStatement] = []
    for statement in body:
        binding = assignment(statement)
        fixed = (
            binding is not None
            and not binding.operator
            and written.count(binding.target) == 1
            and not names(binding.value) & changing
            and not _is_written(statement, stored, function)
        )
        if fixed and binding is not None:
            changing.discard(binding.target)
            ahead.append(statement)
        else:
            rest.append(statement)
    return (ahead, rest) if rest else ([], list(body))


def _is_written(statement: cst.BaseStatement, stored: set[str], function: JitFunction) -> bool:
    bases = {base_of(c.args[0].value, function.params) for c in calls(statement, "tl.load")}
    return bool(bases & stored) or bool(calls(statement, *_WRITES))
