"""Hoisting: code that a loop computes again on each trip is computed once, ahead of it."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from solkit.tuner.proposers.rewriter._memory import (
    Pointers,
    is_write,
    may_write,
    pointers_of,
    touches_memory,
)
from solkit.tuner.proposers.rewriter._mutation import Facts, Variant
from solkit.tuner.proposers.rewriter._nodes import (
    Body,
    argument_of,
    assigned_names,
    calls_within,
    names_read_first,
    names_within,
    range_loop,
    single_assignment,
    with_body,
)
from solkit.tuner.proposers.rewriter._parse import JitFunction, KernelText
from solkit.tuner.proposers.rewriter._values import argument_aliases
from solkit.tuner.proposers.rewriter._variants import joint_variant


class Hoist:
    """Loads and computation that do not depend on a loop move ahead of it.

    Applies to names that a loop's body assigns once, ahead of reading them, from nothing that the
    body assigns; loads only if the loop writes nothing, or through another pointer, to another
    tensor. What had a value before must not be read behind the loop, which may have no trip.
    """

    kind = "hoist"
    helps = ("instructions", "latency", "extra traffic")

    def variants(self, text: KernelText, facts: Facts) -> Iterator[Variant]:
        """See `Rewrite.variants`."""

        def change(function: JitFunction) -> cst.FunctionDef:
            return hoist_invariants(function, _shares_tensors(text, function))

        intent = "Loops of {} repeat what is the same on each trip"
        return joint_variant(text, facts, change, intent, "instructions", "latency")


def _shares_tensors(text: KernelText, function: JitFunction) -> bool:
    """Tell whether two parameters that are accessed are one tensor in some launch."""
    accesses = filter(touches_memory, calls_within(function.node))
    pointers = pointers_of(function).touched(accesses)
    return any(
        argument_aliases(launch)[pointer]
        for launch in text.launches_of(function.name)
        for pointer in pointers & set(launch.arguments)
    )


def hoist_invariants(function: JitFunction, shares_tensors: bool = False) -> cst.FunctionDef:
    """Return a function with invariants ahead of loops; the same node if none can move.

    Args:
        function: whose loops these are.
        shares_tensors: whether two of its parameters may be one tensor.
    """
    statements: list[cst.BaseStatement] = []
    moved = False
    for place, statement in enumerate(function.body):
        loop = range_loop(statement)
        if loop is None:
            statements.append(statement)
            continue
        before = set(assigned_names(*function.body[:place])) | set(function.params)
        kept = before & names_read_first(function.body[place + 1 :]) | names_read_first(loop.body)
        ahead, rest = _part_statements(loop.body, loop.name, function, kept, shares_tensors)
        useful = any(calls_within(statement) for statement in ahead)
        if useful:
            statements += ahead
            statement = with_body(statement, rest)
            moved = True
        statements.append(statement)
    return with_body(function.node, statements) if moved else function.node


def _part_statements(
    body: Body, variable: str, function: JitFunction, kept: set[str], shares_tensors: bool
) -> tuple[list[cst.BaseStatement], list[cst.BaseStatement]]:
    """Return the statements that may move ahead, and the others; `kept` names stay."""
    written = assigned_names(*body)
    changing = {variable, *written}
    pointers = pointers_of(function)
    writes = [call for s in body for call in calls_within(s) if may_write(call)]
    stored = pointers.touched(filter(is_write, writes))
    stored |= frozenset() if all(map(is_write, writes)) else {""}
    ahead: list[cst.BaseStatement] = []
    rest: list[cst.BaseStatement] = []
    for statement in body:
        binding = single_assignment(statement)
        fixed = (
            binding is not None
            and not binding.operator
            and written.count(binding.target) == 1
            and binding.target not in kept
            and not names_within(binding.value) & changing
            and not _is_written(statement, stored, pointers)
            and not (shares_tensors and stored and calls_within(statement, "tl.load"))
        )
        if fixed and binding is not None:
            changing.discard(binding.target)
            ahead.append(statement)
        else:
            rest.append(statement)
    return (ahead, rest) if rest else ([], list(body))


def _is_written(statement: cst.BaseStatement, stored: frozenset[str], pointers: Pointers) -> bool:
    """Tell whether a statement writes, or loads from what the loop may write."""
    loads = calls_within(statement, "tl.load")
    bases = [pointers.bases(argument_of(call, 0, "pointer")) for call in loads]
    is_stored = any(base & stored or (stored and "" in base | stored) for base in bases)
    return is_stored or any(map(may_write, calls_within(statement)))
