"""Loops over single elements within each other become one loop over all of their trips.

::

    for c in range(n):                      for t in range(n * r * s):
        for i in range(r):                      c = t // (r * s)
            h = p + i                  →        i = t // s % r
            for j in range(s):                  j = t % s
                acc += f(c, h, j)               h = p + i
                                                acc += f(c, h, j)

The trips keep their order. In blocks, such a loop sums along one long axis, where each of the loops
alone is too short for a product: the channels and taps of a convolution.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import libcst as cst

from solkit.tuner.proposers.rewriter._carried import unpacked_statements
from solkit.tuner.proposers.rewriter._lift import without_running
from solkit.tuner.proposers.rewriter._lift_expressions import CannotLiftError
from solkit.tuner.proposers.rewriter._memory import WRITES
from solkit.tuner.proposers.rewriter._nodes import (
    Body,
    Loop,
    assigned_names,
    called_name,
    calls_within,
    compound_statement,
    free_name,
    names_read_first,
    names_within,
    parse_expression,
    parse_statements,
    range_loop,
    render_code,
    single_assignment,
    with_body,
)
from solkit.tuner.proposers.rewriter._parse import JitFunction

_NUMBER = re.compile(r"-?\d+")


def with_flat_nests(function: JitFunction) -> cst.FunctionDef | None:
    """Return a function whose nests of loops are single loops; ``None`` if it has none."""
    taken = set(function.names)
    body, count = list(function.body), 0
    for place, statement in enumerate(body):
        flat = _flat_nest(statement, body[place + 1 :], taken)
        if flat is not None:
            body[place], count = flat, count + 1
    return with_body(function.node, body) if count else None


@dataclass(frozen=True)
class _Level:
    """A loop of a nest.

    Attributes:
        name: its variable.
        start: the variable's first value.
        trips: how many there are, as code; fewer than 0 are none.
        ahead: what each trip assigns before the loop within.
    """

    name: str
    start: int
    trips: str
    ahead: Body


def _flat_nest(
    statement: cst.BaseStatement, after: Body, taken: set[str]
) -> cst.BaseStatement | None:
    """Return one loop in place of a nest; ``None`` if a statement is no nest of that form."""
    read_after = names_read_first(after)
    levels, body = _levels(statement, read_after)
    if len(levels) < 2 or not all(map(single_assignment, body)):
        return None
    ahead = [s for level in levels for s in level.ahead]
    names = [*(level.name for level in levels), *assigned_names(*ahead)]
    own = set(names)
    is_once = len(own) == len(names) and not own & set(assigned_names(*body))
    early = names_read_first(ahead) & set(assigned_names(*ahead, *body))
    bounds = names_within(*(parse_expression(level.trips) for level in levels))
    varying = own | set(assigned_names(*body))
    if not is_once or early or bounds & varying or read_after & own:
        return None
    if any(calls_within(s, *WRITES) for s in (*ahead, *body)):
        return None
    return _written(levels, [*ahead, *body], taken)


def _levels(statement: cst.BaseStatement, read_after: set[str]) -> tuple[list[_Level], Body]:
    """Return the loops of a nest from outside, and what the innermost one does."""
    loop = _counted_loop(statement)
    if loop is None:
        return [], ()
    try:
        body = unpacked_statements(without_running(loop, read_after))
    except (CannotLiftError, ValueError):
        return [], ()
    own = _level(loop, body[:-1])
    inner, innermost = _levels(body[-1], read_after) if body else ([], ())
    if inner and own is not None and all(map(single_assignment, body[:-1])):
        return [own, *inner], innermost
    last = _level(loop, ())
    return ([], ()) if last is None else ([last], body)


def _counted_loop(statement: cst.BaseStatement) -> Loop | None:
    """Return a statement as a loop over a range, also one that the compiler writes out."""
    if isinstance(statement, cst.For) and called_name(statement.iter) == "tl.static_range":
        plain = cst.ensure_type(statement.iter, cst.Call).with_changes(func=cst.Name("range"))
        statement = statement.with_changes(iter=plain)
    return range_loop(statement)


def _level(loop: Loop, ahead: Body) -> _Level | None:
    """Return a loop between two numbers, or from 0 to a name."""
    start, stop = render_code(loop.start), render_code(loop.stop)
    if render_code(loop.step) != "1":
        return None
    if _NUMBER.fullmatch(start) and _NUMBER.fullmatch(stop):
        trips = int(stop) - int(start)
        return _Level(loop.name, int(start), str(trips), ahead) if trips > 0 else None
    is_size = isinstance(loop.stop, cst.Name) and start == "0"
    return _Level(loop.name, 0, stop, ahead) if is_size else None


def _written(levels: Sequence[_Level], body: Body, taken: set[str]) -> cst.BaseStatement:
    whole = free_name("trip", taken)
    lines: list[str] = []
    for place, level in enumerate(levels):
        within = [other.trips for other in levels[place + 1 :]]
        inner = f"({' * '.join(within)})" if len(within) > 1 else "".join(within)
        code = f"{whole} // {inner}" if inner else whole
        code = f"{code} % {level.trips}" if place else code
        lines.append(f"{level.name} = {code}" + (f" + {level.start}" if level.start else ""))
    # of two counts below 0 the product is above
    trips = [t if t.isdigit() else f"tl.maximum({t}, 0)" for t in (v.trips for v in levels[1:])]
    total = " * ".join([levels[0].trips, *trips])
    own = parse_statements("\n".join(lines) + "\n")
    return compound_statement(f"for {whole} in range({total})", [*own, *body])
