"""Values that a loop stores, computed again where a later loop over the same elements loads them.

A row that goes through memory between two loops of one program is stored and loaded. To compute an
element again, from what the row's statistics are by then, costs the loads that it is made of.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import libcst as cst

from solkit.tuner.proposers.rewriter._assignments import needed_for, values_of
from solkit.tuner.proposers.rewriter._edit import in_place_of
from solkit.tuner.proposers.rewriter._memory import WRITES, touches_memory
from solkit.tuner.proposers.rewriter._nodes import (
    Body,
    Loop,
    argument_of,
    assigned_names,
    called_name,
    calls_within,
    expression_statement,
    free_name,
    names_read_first,
    names_within,
    parenthesized,
    plain_code,
    range_loop,
    render_code,
    single_assignment,
    substitute_names,
    with_body,
    with_each,
)

_MOST_LOADS = 2
"""Loads of an element that is computed again: its store and its load are as many accesses."""


@dataclass(frozen=True)
class LoopValue:
    """A value that each trip of a loop stores.

    Attributes:
        loop: the loop.
        statements: of a trip, those that the value follows from.
        value: what is stored.
        kind: type to which it is rounded in memory; empty where that need not be done.
    """

    loop: Loop
    statements: Sequence[cst.BaseStatement]
    value: cst.BaseExpression
    kind: str = ""

    @property
    def loads(self) -> list[cst.Call]:
        """Loads that the value is made of."""
        calls = [c for part in (*self.statements, self.value) for c in calls_within(part)]
        return [call for call in calls if touches_memory(call)]


def loop_value(store: cst.Call, ahead: Body, behind: Body) -> LoopValue | None:
    """Return the value of a store in a loop, if the same can be computed behind the loop.

    Args:
        store: of one element or block in each trip.
        ahead: statements, one of which is the loop.
        behind: statements behind these.
    """
    for place, statement in enumerate(ahead):
        loop = range_loop(statement)
        at = None if loop is None else _place_among(store, loop.body)
        if loop is None or at is None:
            continue
        value = argument_of(store, 1, "value")
        if value is None:
            return None
        needed = needed_for(names_within(value), loop.body[:at])
        row_value = LoopValue(loop, needed, value)
        own, counts = set(assigned_names(*needed)), Counter(assigned_names(*loop.body))
        first_read = names_read_first(needed)
        outside = (first_read | names_within(value)) - own - {loop.name}
        is_plain = (
            all(single_assignment(part) is not None for part in needed)
            and not first_read & counts.keys()  # nothing from the trip before
            and all(counts[name] == 1 for name in own)
            and 1 <= len(row_value.loads) <= _MOST_LOADS
            and all(called_name(load) == "tl.load" for load in row_value.loads)
        )
        later = [statement, *ahead[place + 1 :], *behind]
        changed = outside & set(assigned_names(*later))
        is_kept = all(_is_same(name, ahead, later) for name in changed)
        return row_value if is_plain and is_kept else None
    return None


def _is_same(name: str, ahead: Body, later: Body) -> bool:
    """Tell whether a name gets the value again that it has, such as the index of the program."""
    values = values_of(name, (*ahead, *later))
    changing = set(assigned_names(*later))
    return (
        len(values) == assigned_names(*ahead, *later).count(name)
        and len({plain_code(value) for value in values}) == 1
        and not any(names_within(value) & changing for value in values)
    )


def _place_among(store: cst.Call, body: Body) -> int | None:
    """Return the place of the statement that is a store."""
    return next((n for n, s in enumerate(body) if expression_statement(s) is store), None)


def computed_again(
    body: Body, values: Mapping[int, LoopValue], taken: set[str]
) -> list[cst.BaseStatement]:
    """Return statements in which loads are what loops stored.

    Args:
        body: statements; each load is in a loop of its own.
        values: by the `id` of a load.
        taken: names of the function, to which new ones are added.
    """
    statements: list[cst.BaseStatement] = []
    for statement in body:
        loop = range_loop(statement)
        if loop is None or not any(id(call) in values for call in calls_within(statement)):
            statements.append(statement)
            continue
        inner: list[cst.BaseStatement] = []
        for part in loop.body:
            swaps: dict[int, list[cst.CSTNode]] = {}
            for load in calls_within(part, "tl.load"):
                if (value := values.get(id(load))) is not None:
                    ahead, code = _written_again(value, loop, taken)
                    inner += ahead
                    swaps[id(load)] = [in_place_of(load, code)]
            inner.append(with_each(part, swaps))
        statements.append(with_body(loop.node, inner))
    return statements


def _written_again(
    value: LoopValue, loop: Loop, taken: set[str]
) -> tuple[list[cst.BaseStatement], str]:
    """Return statements of another loop's trip that compute a value, and code of the value."""
    names: dict[str, cst.BaseExpression] = {value.loop.name: cst.Name(loop.name)}
    for name in assigned_names(*value.statements):
        names[name] = cst.Name(free_name(name, taken))
    statements = [substitute_names(statement, names) for statement in value.statements]
    code = render_code(parenthesized(substitute_names(value.value, names)))
    return statements, f"{code}.to({value.kind})" if value.kind else code


def without_stores(body: Body, behind: Body, stores: Collection[int]) -> list[cst.BaseStatement]:
    """Return statements without some stores, and without loops that had nothing else to do.

    Args:
        body: the statements.
        behind: statements that follow.
        stores: `id` of each of the calls.
    """
    kept: list[cst.BaseStatement] = []
    for place, statement in enumerate(body):
        if not any(id(call) in stores for call in calls_within(statement)):
            kept.append(statement)
        elif (loop := range_loop(statement)) is not None:
            inner = without_stores(loop.body, (), stores)
            later = names_read_first([*body[place + 1 :], *behind])
            writes = any(calls_within(part, *WRITES) for part in inner)
            if writes or later & {loop.name, *assigned_names(*inner)}:
                kept.append(with_body(loop.node, inner))
    return kept
