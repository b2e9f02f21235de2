"""Assignments among statements: what names get, and which of them something needs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence

import libcst as cst

from solkit.tuner.proposers.rewriter._memory import WRITES
from solkit.tuner.proposers.rewriter._nodes import (
    Assignment,
    Body,
    assigned_names,
    calls_within,
    changed_within,
    count_uses,
    names_within,
    single_assignment,
    substitute_names,
    walk_statements,
)


def assignments_in(body: Iterable[cst.CSTNode]) -> list[Assignment]:
    """Return those of some nodes that are assignments to one name."""
    return [binding for node in body if (binding := single_assignment(node)) is not None]


def last_values(body: Iterable[cst.CSTNode]) -> dict[str, cst.BaseExpression]:
    """Return what names get from the last of their assignments among statements."""
    return {binding.target: binding.value for binding in assignments_in(body)}


def values_of(name: str, body: Iterable[cst.CSTNode]) -> list[cst.BaseExpression]:
    """Return what statements assign to a name, in their order."""
    return [binding.value for binding in assignments_in(body) if binding.target == name]


def single_values(body: Body, params: Collection[str] = ()) -> dict[str, cst.BaseExpression]:
    """Return what names stand for that are assigned once, in loops too, and are no parameters."""
    counts = Counter((*assigned_names(*body), *params))
    bindings = assignments_in(walk_statements(body))
    return {binding.target: binding.value for binding in bindings if counts[binding.target] == 1}


def straight_values(body: Body) -> dict[str, cst.BaseExpression]:
    """Return what statements themselves assign to names that get nothing else, nor grow."""
    counts = Counter(assigned_names(*body))
    return {
        binding.target: binding.value
        for binding in assignments_in(body)
        if counts[binding.target] == 1 and binding.target not in names_within(binding.value)
    }


def read_part(statement: cst.BaseStatement) -> cst.CSTNode:
    """Return what a statement reads: of an assignment to a name, its value."""
    binding = single_assignment(statement)
    return statement if binding is None else binding.value


def needed_for(names: Collection[str], body: Body) -> list[cst.BaseStatement]:
    """Return the statements that names follow from."""
    used, kept = set(names), []
    for statement in reversed(body):
        if set(assigned_names(statement)) & used:
            used |= names_within(statement)
            kept.append(statement)
    return kept[::-1]


def following_names(body: Body, names: Collection[str] = (), calls: Sequence[str] = ()) -> set[str]:
    """Return names with those whose values follow from them, or from calls; through loops, too."""
    bindings, reached = assignments_in(walk_statements(body)), set(names)
    count = -1
    while count != len(reached):
        count = len(reached)
        reached |= {
            binding.target
            for binding in bindings
            if names_within(binding.value) & reached
            or (calls and calls_within(binding.value, *calls))
        }
    return reached


def written_out(bindings: Iterable[Assignment]) -> dict[str, cst.BaseExpression]:
    """Return what names get, one after the other, without names that got something before."""
    values: dict[str, cst.BaseExpression] = {}
    for binding in bindings:
        values[binding.target] = substitute_names(binding.value, values)
    return values


def without_assignments(
    body: Iterable[cst.BaseStatement], names: Collection[str]
) -> list[cst.BaseStatement]:
    """Return statements but for assignments to one of some names."""
    return [s for s in body if (own := single_assignment(s)) is None or own.target not in names]


def without_unused(body: Body, kept: Collection[str] = ()) -> list[cst.BaseStatement]:
    """Return statements without assignments to names that nothing reads; what writes stays."""
    statements = list(body)
    while True:
        used = {*kept, *names_within(*map(read_part, statements))}
        idle = [a for a in assignments_in(statements) if not calls_within(a.value, *WRITES)]
        fewer = without_assignments(statements, {a.target for a in idle} - used)
        if len(fewer) == len(statements):
            return statements
        statements = fewer


def without_unread_parts(body: Body, name: str) -> list[cst.BaseStatement]:
    """Return statements without what is made of a name for other names that nothing reads."""

    def is_unread(statement: cst.BaseStatement) -> bool:
        binding = single_assignment(statement)
        if binding is None or name not in names_within(binding.value):
            return False
        return sum(count_uses(other, binding.target) for other in body) == 1

    while gone := {id(statement) for statement in walk_statements(body) if is_unread(statement)}:
        body = changed_within(body, lambda s: [] if id(s) in gone else [s])
    return list(body)


def names_in_own_assignments(body: Body) -> set[str]:
    """Return names that occur only in assignments to them."""
    uses = Counter[str]()
    for statement in walk_statements(body):
        if (binding := single_assignment(statement)) is not None:
            uses[binding.target] += count_uses(statement, binding.target)
    return {n for n in uses if uses[n] == sum(count_uses(statement, n) for statement in body)}
