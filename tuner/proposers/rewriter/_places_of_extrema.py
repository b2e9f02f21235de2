"""Extrema that a loop carries, with what came with them, such as their places, as blocks of trips.

::

    better = x > best                     x_brought = tl.where(i_mask & (x == x), x, best)
    place = tl.where(better, i, place)    top, at = tl.max(x_brought, axis=0, return_indices=True)
    best = tl.where(better, x, best)  →   taken = top > best
                                          place = tl.where(taken, i_start + at, place)
                                          best = tl.where(taken, top, best)

A number that is none is beyond nothing, and no element either where no trip is: both stand aside
for the best so far, which is not beyond itself. Of equal elements the first counts, as `tl.max` has
it too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import libcst as cst

from solkit.tuner.proposers.rewriter._carried import Carried, CarriedKind
from solkit.tuner.proposers.rewriter._nodes import (
    argument_of,
    assigned_names,
    called_name,
    calls_within,
    count_uses,
    free_name,
    names_within,
    nodes_within,
    parse_statement,
    parse_statements,
    render_code,
    single_assignment,
    statements_of,
    substitute_names,
)


@dataclass(frozen=True)
class Extremum:
    """An extremum that a loop carries.

    Attributes:
        name: of it.
        element: the name of what a trip brings.
        is_maximum: whether the largest counts.
        followers: names of what comes with it, and of what a trip brings for them.
        places: of followers that are sums and products of the trip's index, those.
        top, at, taken: free names.
    """

    name: str
    element: str
    is_maximum: bool
    followers: Mapping[str, str]
    places: Mapping[str, cst.BaseExpression]
    top: str
    at: str
    taken: str


def with_extrema(
    trip: Sequence[cst.BaseStatement], updates: Mapping[str, Carried], index: str, taken: set[str]
) -> tuple[list[cst.BaseStatement], dict[str, Extremum]]:
    """Return a trip without the updates of extrema by choices, and these by the name of their end.

    Args:
        trip: the loop's statements.
        updates: what the loop carries.
        index: the name that the loop counts with.
        taken: names that are no new ones.
    """
    body, result = _without_choosing_branches(trip, updates, taken), dict[str, Extremum]()
    for name, update in updates.items():
        followers = [u for u in updates.values() if u.leader == name]
        if not update.kind.is_extremum or any(u.kind is not _FOLLOWER for u in followers):
            continue
        changed = _without_extremum(body, update, followers, index, taken)
        if changed is not None:
            body, end, extremum = changed
            result[end] = extremum
    return (body, result) if result else (list(trip), {})


_FOLLOWER = CarriedKind.FOLLOWER


def _without_choosing_branches(
    trip: Sequence[cst.BaseStatement], updates: Mapping[str, Carried], taken: set[str]
) -> list[cst.BaseStatement]:
    """Return a trip with ``best = tl.where(x > best, x, best)`` for ``if x > best: best = x``."""
    result: list[cst.BaseStatement] = []
    for statement in trip:
        inner = statements_of(statement)
        bindings = [b for s in inner if (b := single_assignment(s)) is not None]
        names = {b.target for b in bindings}
        chosen = {n for n, u in updates.items() if u.kind.is_extremum or u.kind is _FOLLOWER}
        if (
            not isinstance(statement, cst.If)
            or statement.orelse is not None
            or not len(bindings) == len(inner) == len(names)
            or not names <= chosen
            or any(names_within(b.value) & names or calls_within(b.value) for b in bindings)
        ):
            result.append(statement)
            continue
        test = free_name("better", taken)
        result.append(parse_statement(f"{test} = {render_code(statement.test)}"))
        result += [
            parse_statement(f"{b.target} = tl.where({test}, {render_code(b.value)}, {b.target})")
            for b in bindings
        ]
    return result


def _without_extremum(
    body: Sequence[cst.BaseStatement],
    update: Carried,
    followers: Sequence[Carried],
    index: str,
    taken: set[str],
) -> tuple[list[cst.BaseStatement], str, Extremum] | None:
    operands: dict[str, tuple[int, cst.BaseExpression]] = {}
    for carried in (update, *followers):
        operand = _operand(body, carried.name)
        if operand is None or not carried.is_first or not _is_compared(body, operand[0]):
            return None
        operands[carried.name] = operand
    value = cst.ensure_type(_value(body[operands[update.name][0]]), cst.Call)
    if not followers and called_name(value) != "tl.where":
        return None  # it is reduced as it is
    brought = {name: free_name(f"{name}_brought", taken) for name in operands}
    end = free_name(f"{update.name}_end", taken)
    changed = list(body)
    for name, (place, node) in operands.items():
        changed[place] = parse_statement(f"{brought[name]} = {render_code(node)}")
    last = max(place for place, _ in operands.values())
    marker = parse_statements(f"{end} = {brought[update.name]}\n")
    changed = [*changed[: last + 1], *marker, *changed[last + 1 :]]
    changed = _without_unread_tests(changed, set(operands))
    if set(operands) & names_within(*changed):
        return None
    values = {b.target: b.value for s in body if (b := single_assignment(s)) is not None}
    names = [free_name(word, taken) for word in ("top", "at", "taken")]
    elements = {u.name: brought[u.name] for u in followers}
    places = {
        u.name: element
        for u in followers
        if (element := _place(operands[u.name][1], values, index)) is not None
    }
    is_maximum = update.kind is CarriedKind.MAXIMUM
    extremum = Extremum(update.name, brought[update.name], is_maximum, elements, places, *names)
    return changed, end, extremum


def _value(statement: cst.BaseStatement) -> cst.BaseExpression:
    binding = single_assignment(statement)
    assert binding is not None
    return binding.value


def _operand(body: Sequence[cst.BaseStatement], name: str) -> tuple[int, cst.BaseExpression] | None:
    """Return where a name is updated, once and in no branch, and what may become its value."""
    places = [p for p, s in enumerate(body) if (b := single_assignment(s)) and b.target == name]
    if len(places) != 1 or assigned_names(*body).count(name) != 1:
        return None
    value = _value(body[places[0]])
    if not isinstance(value, cst.Call):
        return None
    skipped = 1 if called_name(value) == "tl.where" else 0
    rest = [arg.value for arg in value.args[skipped:] if render_code(arg.value) != name]
    return (places[0], rest[0]) if len(rest) == 1 and len(value.args) == skipped + 2 else None


def _is_compared(body: Sequence[cst.BaseStatement], place: int) -> bool:
    """Tell whether a statement takes an element by a comparison alone, or by no choice."""
    value = _value(body[place])
    if called_name(value) != "tl.where":
        return True
    test, names = cst.ensure_type(value, cst.Call).args[0].value, assigned_names(*body)
    values = {b.target: b.value for s in body if (b := single_assignment(s)) is not None}
    while isinstance(test, cst.Name) and names.count(test.value) == 1 and test.value in values:
        test = values[test.value]
    return isinstance(test, cst.Comparison) and len(test.comparisons) == 1


def _without_unread_tests(
    body: Sequence[cst.BaseStatement], names: set[str]
) -> list[cst.BaseStatement]:
    """Return statements without comparisons of extrema that nothing reads."""
    return [
        s
        for s in body
        if (binding := single_assignment(s)) is None
        or not names & names_within(binding.value)
        or sum(count_uses(other, binding.target) for other in body) > 1
    ]


def _place(
    node: cst.BaseExpression, values: Mapping[str, cst.BaseExpression], index: str
) -> cst.BaseExpression | None:
    """Return a follower's element as sums and products of the index; ``None`` if it is none."""
    for _ in values:
        node = substitute_names(node, {n: v for n, v in values.items() if n in names_within(node)})
    if called_name(node) == "tl.full":
        fill = argument_of(cst.ensure_type(node, cst.Call), 1, "value")
        node = node if fill is None else fill
    kinds = (cst.Name, cst.Integer, cst.BinaryOperation, cst.Add, cst.Subtract, cst.Multiply)
    is_plain = all(isinstance(inner, kinds) for inner in nodes_within(node))
    return node if is_plain and index in names_within(node) else None
