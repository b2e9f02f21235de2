"""Launches that follow one another in a launcher, and what lies between them."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterator

import libcst as cst

from solkit.tuner.proposers.rewriter._edit import has_assignment
from solkit.tuner.proposers.rewriter._nodes import (
    called_name,
    calls_within,
    single_assignment,
    statements_of,
)
from solkit.tuner.proposers.rewriter._parse import KernelText, Launch, is_changed_between
from solkit.tuner.proposers.rewriter._roots import ALLOCATORS, TENSOR_QUERIES

_HARMLESS = (*ALLOCATORS, "triton.cdiv", "triton.next_power_of_2", "int", "min", "max", "float")
_METHODS = TENSOR_QUERIES | {"new_empty", "get"}


def is_harmless(call: cst.Call) -> bool:
    """Tell whether a launcher's call reads and writes no tensor's elements."""
    method = call.func.attr.value if isinstance(call.func, cst.Attribute) else ""
    return called_name(call) in _HARMLESS or method in _METHODS


def adjacent_launches(text: KernelText) -> Iterator[tuple[Launch, Launch]]:
    """Yield launches of ``kernel`` and the next one, both single ones, in no branch and no loop."""
    top = {id(statement) for statement in statements_of(text.launcher)}
    launches = [launch for launch in text.launches if id(launch.statement) in top]
    for one, two in itertools.pairwise(launches):
        if one in text.single and two in text.single:
            yield one, two


def statements_between(one: Launch, two: Launch) -> list[cst.BaseStatement] | None:
    """Return the statements between two launches; ``None`` if the second does not just follow."""
    body = statements_of(one.launcher)
    places = [place for place, s in enumerate(body) if s in (one.statement, two.statement)]
    if len(places) != 2 or body[places[0]] is not one.statement:
        return None
    return body[places[0] + 1 : places[1]]


def is_free_between(one: Launch, two: Launch) -> bool:
    """Tell whether a launch may come right ahead of a later one, as far as its arguments go.

    Nothing between them reads or writes a tensor's elements.
    """
    between = statements_between(one, two)
    if between is None or is_changed_between(between, one):
        return False
    return all(is_harmless(call) for statement in between for call in calls_within(statement))


def allocation_of(
    name: str, launcher: cst.FunctionDef, functions: Collection[str] = ALLOCATORS
) -> cst.BaseStatement | None:
    """Return the statement that allocates a launcher's tensor by one of some functions."""
    statement = has_assignment(launcher, name)
    binding = None if statement is None else single_assignment(statement)
    return statement if binding is not None and called_name(binding.value) in functions else None
