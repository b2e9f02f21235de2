"""Running values: what a trip makes of all trips up to itself, where it also uses that.

A trip that only carries a sum needs no order among elements. One that stores the sum so far does,
and a block of trips is a scan::

    total += x                       taken = tl.where(i_mask, tl.cast(x, tl.float32), 0)
    tl.store(out + i, total)    →    total_now = total + tl.cumsum(taken, axis=0)
                                     total = total + tl.sum(taken, axis=0)
                                     tl.store(out + i, total_now, mask=i_mask)

An update is affine, ``total * factor + added``, or an extremum. Each is associative, as a pair of
factor and sum is [1]: a later trip's ``(f, a)`` after ``(g, b)`` is ``(f g, f b + a)``. Where the
factors of a block multiply to more than the type holds, a recurrence is no number.

[1] Blelloch, Prefix sums and their applications (1990), section 1.4.1.
"""

from __future__ import annotations

import enum
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass

import libcst as cst

from solkit.tuner.proposers.rewriter._assignments import assignments_in, without_unread_parts
from solkit.tuner.proposers.rewriter._first_values import start_of_name
from solkit.tuner.proposers.rewriter._memory import WRITES
from solkit.tuner.proposers.rewriter._nodes import (
    Assignment,
    assigned_names,
    called_name,
    calls_within,
    count_uses,
    free_name,
    names_read_first,
    names_within,
    parse_statement,
    parse_statements,
    render_code,
    single_assignment,
    substitute_names,
    walk_statements,
)
from solkit.tuner.proposers.rewriter._roots import element_uses
from solkit.tuner.proposers.rewriter._values import all_names


class RunningKind(enum.Enum):
    """Kind of an update; see the module."""

    SUM = "sum"
    PRODUCT = "product"
    RECURRENCE = "recurrence"
    MAXIMUM = "maximum"
    MINIMUM = "minimum"

    @property
    def fill(self) -> str:
        """Element that changes nothing, as code."""
        fills = {RunningKind.PRODUCT: "1", RunningKind.MAXIMUM: 'float("-inf")'}
        return {**fills, RunningKind.MINIMUM: 'float("inf")'}.get(self, "0")


_EXTREMA = {
    **dict.fromkeys(("tl.maximum", "max"), RunningKind.MAXIMUM),
    **dict.fromkeys(("tl.minimum", "min"), RunningKind.MINIMUM),
}
_COMBINERS = {
    RunningKind.MAXIMUM: "def {}(one, two):\n    return tl.maximum(one, two)\n",
    RunningKind.MINIMUM: "def {}(one, two):\n    return tl.minimum(one, two)\n",
    RunningKind.RECURRENCE: "def {}(factor, added, next_factor, next_added):\n"
    "    return factor * next_factor, added * next_factor + next_added\n",
}


def combiner(kind: RunningKind, name: str) -> cst.FunctionDef | None:
    """Return the function that joins two elements of a scan; ``None`` if Triton has the scan."""
    if kind not in _COMBINERS:
        return None
    (node,) = parse_statements(f"@triton.jit\n{_COMBINERS[kind].format(name)}")
    blank = [cst.EmptyLine(), cst.EmptyLine()]
    return cst.ensure_type(node, cst.FunctionDef).with_changes(leading_lines=blank)


@dataclass(frozen=True)
class Running:
    """A running value.

    Attributes:
        name: of it, once a trip has made it.
        total: the name that trips hand on.
        kind: of its update.
        element: the name of what a trip brings.
        factor: of a recurrence, the name of what the total is multiplied by.
    """

    name: str
    total: str
    kind: RunningKind
    element: str
    factor: str


def with_running_values(
    trip: Sequence[cst.BaseStatement], before: Sequence[cst.BaseStatement], taken: set[str]
) -> tuple[list[cst.BaseStatement], dict[str, Running]]:
    """Return a trip in which running values have names of their own, and these by name.

    What carries the totals is gone from it. A trip that reads a total before its update stays.

    Args:
        trip: the loop's statements.
        before: the function's statements ahead of the loop.
        taken: names that are no new ones.
    """
    body, result = list(trip), dict[str, Running]()
    for total in sorted(names_read_first(body) & set(assigned_names(*body))):
        dtype = _type_of_total(total, before)
        changed = _with_running_value(body, total, dtype, taken) if dtype else None
        if changed is not None:
            body, running = changed
            result[running.name] = running
    return body, result


def _type_of_total(total: str, before: Sequence[cst.BaseStatement]) -> str:
    """Return the type of a total as code: its own if it is a block, such as a state that is loaded.

    A plain number has no type of its own. Empty for other forms.
    """
    start = start_of_name(total, before)
    if start is not None:
        return f"tl.{start.dtype}"
    return f"{total}.dtype" if _is_block(cst.Name(total), before) else ""


def _is_block(
    value: cst.BaseExpression, before: Sequence[cst.BaseStatement], seen: tuple[str, ...] = ()
) -> bool:
    """Tell whether a value is a block that is made or loaded, also in another type."""
    func = value.func if isinstance(value, cst.Call) else None
    if isinstance(func, cst.Attribute) and func.attr.value == "to":
        return _is_block(func.value, before, seen)
    if not isinstance(value, cst.Name):
        return called_name(value) in ("tl.load", "tl.zeros", "tl.full")
    name = value.value
    bindings = [b for b in assignments_in(walk_statements(before)) if b.target == name]
    counted = assigned_names(*before).count(name) == len(bindings) > 0
    if name in seen or not counted or bindings[0].operator:
        return False
    return all(b.operator or _is_block(b.value, before, (*seen, name)) for b in bindings)


def _with_running_value(
    body: Sequence[cst.BaseStatement], total: str, dtype: str, taken: set[str]
) -> tuple[list[cst.BaseStatement], Running] | None:
    place = _only_place(body, total)
    if place is None:
        return None
    kept, value = list(body), _binding(body, place).value
    name = free_name(f"{total}_now", taken)
    if isinstance(value, cst.Name):  # ``now = total + x; total = now``
        name, carries = value.value, place
        source = _only_place(body, name)
        if source is None or source > carries:
            return None
        place, value = source, _binding(body, source).value
        kept[carries] = parse_statement("pass")
    counts = Counter(assigned_names(*body))
    parts, fixed = dict[str, cst.BaseExpression](), {total}
    for statement in body[:place]:
        binding = single_assignment(statement)
        if binding is None or counts[binding.target] != 1:
            continue
        if all(counts[n] == 0 or n in fixed for n in names_within(binding.value)):
            parts[binding.target] = binding.value  # which means the same at the update
        fixed.add(binding.target)
    for _ in parts:
        value = substitute_names(
            value, {n: v for n, v in parts.items() if total in names_within(v)}
        )
    update = _update(value, total, dtype)
    behind = [substitute_names(s, {total: cst.Name(name)}) for s in kept[place + 1 :]]
    if update is None or not any(count_uses(s, name) for s in behind):
        return None
    kind, factor, element = update
    if dtype != "tl.float32" and kind in (RunningKind.MAXIMUM, RunningKind.MINIMUM):
        return None  # no integer is the least of all types
    names = [free_name(f"{total}_{word}", taken) for word in ("taken", "factor")]
    lines = [f"{names[0]} = {element}"]
    placeholder = names[0]
    if kind is RunningKind.RECURRENCE:
        lines.append(f"{names[1]} = {factor}")
        placeholder = f"{names[0]} + {names[1]}"
    lines.append(f"{name} = {placeholder}")
    changed = [*kept[:place], *parse_statements("\n".join(lines) + "\n"), *behind]
    changed = without_unread_parts([s for s in changed if render_code(s) != "pass"], total)
    if any(element_uses(statement, total) for statement in changed):
        return None
    return changed, Running(name, total, kind, names[0], names[1])


def writes_by(body: Sequence[cst.BaseStatement], names: Collection[str]) -> bool:
    """Tell whether the place of a write depends on names: two trips may then write to one place."""
    values = {b.target: b.value for s in walk_statements(body) if (b := single_assignment(s))}
    writes = [call for statement in body for call in calls_within(statement, *WRITES)]
    return any(all_names(call.args[0].value, values) & set(names) for call in writes)


def _only_place(body: Sequence[cst.BaseStatement], name: str) -> int | None:
    """Return where a name is assigned, if that is once, and in no loop or branch."""
    if assigned_names(*body).count(name) != 1:
        return None
    places = [p for p, s in enumerate(body) if (b := single_assignment(s)) and b.target == name]
    return places[0] if places else None


def _binding(body: Sequence[cst.BaseStatement], place: int) -> Assignment:
    binding = single_assignment(body[place])
    assert binding is not None
    return binding


# ------------------------------------------------------------------------------- updates


def _update(
    value: cst.BaseExpression, total: str, dtype: str
) -> tuple[RunningKind, str, str] | None:
    """Return an update's kind, factor and element; ``None`` if it is none of these."""
    if (kind := _EXTREMA.get(called_name(value))) is not None:
        args = [arg.value for arg in cst.ensure_type(value, cst.Call).args]
        rest = [arg for arg in args if render_code(arg) != total]
        is_plain = len(args) == 2 and len(rest) == 1 and total not in names_within(rest[0])
        return (kind, "", f"tl.cast({render_code(rest[0])}, {dtype})") if is_plain else None
    affine = _affine(value, total, dtype)
    if affine is None or affine == ("", ""):
        return None
    factor, added = affine
    if not factor:
        return RunningKind.SUM, "", added
    return (RunningKind.RECURRENCE, factor, added) if added else (RunningKind.PRODUCT, "", factor)


def _affine(value: cst.BaseExpression, total: str, dtype: str) -> tuple[str, str] | None:
    """Return the factor of a total and what is added to it, each empty if there is none.

    What is computed with the total has the total's type, and so have its parts.
    """
    if isinstance(value, cst.Name) and value.value == total:
        return "", ""
    if not isinstance(value, cst.BinaryOperation):
        return None
    is_left = total in names_within(value.left)
    own, other = (value.left, value.right) if is_left else (value.right, value.left)
    if total in names_within(other) or (inner := _affine(own, total, dtype)) is None:
        return None
    factor, added = inner
    code = f"tl.cast({render_code(other)}, {dtype})"
    if isinstance(value.operator, cst.Multiply):
        return f"{factor} * {code}" if factor else code, f"({added}) * {code}" if added else ""
    if isinstance(value.operator, cst.Add):
        return factor, f"{added} + {code}" if added else code
    if isinstance(value.operator, cst.Subtract) and is_left:
        return factor, f"{added} - {code}" if added else f"-{code}"
    return None
