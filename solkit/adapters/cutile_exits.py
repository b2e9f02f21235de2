"""Rewrite cuTile's IR so that only the end of a loop's body leaves an iteration.

cuTile keeps ``continue``, ``break`` and ``return`` inside of branches. Triton's IR has structured
branches: each ends by yielding values. So what follows a branch that may leave moves into the
branch that goes on. If both go on, a flag says whether the rest runs.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from types import SimpleNamespace
from typing import Any, Protocol

_EXITS = ("continue", "break", "return")


class TileIrError(ValueError):
    """The IR has a form that is not known."""


def is_tile(var: Any) -> bool:
    """Tell whether a value is a tile: others are tokens and views."""
    return hasattr(var.get_type(), "dtype") and type(var.get_type()).__name__ == "TileTy"


class _Value:
    """A value that the rewriting makes; `_name_values` names it."""

    def __init__(self, kind: Any) -> None:
        self.name, self._kind = "", kind

    def get_type(self) -> Any:
        """Return its type, as cuTile's values do."""
        return self._kind


class _Frame(Protocol):
    """The values that a sequence of operations yields at its end."""

    def types(self) -> list[Any]:
        """Return the types of what it yields."""

    def values(self, end: Any, into: list[Any]) -> list[Any]:
        """Return what it yields at an operation that ends it, whose constants go `into` a list."""


class _Kernel:
    """A kernel's own sequence: it yields nothing."""

    def types(self) -> list[Any]:
        return []

    def values(self, end: Any, into: list[Any]) -> list[Any]:
        del end, into
        return []


class _Iteration:
    """The body of a loop: it yields what the next iteration begins with.

    Args:
        loop: the loop.
        flag: type of what says whether there is a next iteration; ``None`` of a counted loop.
    """

    def __init__(self, loop: Any, flag: Any = None) -> None:
        self.flag = flag
        self.own = [var.get_type() for var in _tiles(loop.body_vars)]

    def types(self) -> list[Any]:
        return [*self.own, *([] if self.flag is None else [self.flag])]

    def values(self, end: Any, into: list[Any]) -> list[Any]:
        if end.op == "return":
            raise TileIrError("a return inside of a loop is not followed")
        if self.flag is None:
            return _tiles(end.values)
        return [*_tiles(end.values), _constant(self.flag, end.op == "continue", end.loc, into)]


class _Branch:
    """A branch after which the rest may run: it yields its results, what `outer` yields, a flag."""

    def __init__(self, branch: Any, outer: _Frame) -> None:
        self.outer, self.flag = outer, branch.cond.get_type()
        self.own = [var.get_type() for var in _tiles(branch.result_vars)]

    def types(self) -> list[Any]:
        return [*self.own, *self.outer.types(), self.flag]

    def values(self, end: Any, into: list[Any]) -> list[Any]:
        goes_on = end.op == "end_branch"
        own = _tiles(end.outputs) if goes_on else _unused(self.own, end.loc, into)
        outer = self.outer
        yielded = _unused(outer.types(), end.loc, into) if goes_on else outer.values(end, into)
        return [*own, *yielded, _constant(self.flag, goes_on, end.loc, into)]


def without_exits(body: Any) -> list[Any]:
    """Return a kernel's operations without exits inside of branches.

    What is new has the names and attributes of cuTile's operations and values.

    Raises:
        TileIrError: a loop returns.
    """
    operations = list(body)
    if any(map(_may_leave, operations)):
        written, _ = _sequence(operations, _Kernel())
        written.append(SimpleNamespace(op="return", loc=operations[-1].loc, result_vars=()))
    else:
        written = _all_inside(operations)
    _name_values(written, itertools.count())
    return written


def _name_values(operations: Iterable[Any], numbers: Iterator[int]) -> None:
    for operation in operations:
        for var in (*operation.result_vars, *getattr(operation, "body_vars", ())):
            if isinstance(var, _Value):
                var.name = f"solkit.exit{next(numbers)}"
        for block in getattr(operation, "nested_blocks", ()):
            _name_values(block, numbers)


def _sequence(operations: Sequence[Any], frame: _Frame) -> tuple[list[Any], list[Any]]:
    """Return a sequence that ends where it leaves, and what it yields there."""
    written: list[Any] = []
    for at, operation in enumerate(operations):
        if operation.op in (*_EXITS, "end_branch"):
            return written, frame.values(operation, written)
        if _may_leave(operation):
            return written, _leaving(operation, operations[at + 1 :], frame, written)
        written.extend(_inside(operation))
    raise TileIrError("operations without an end")


def _leaving(branch: Any, rest: Sequence[Any], frame: _Frame, written: list[Any]) -> list[Any]:
    """Write a branch that may leave, with the rest; return what both yield."""
    blocks = [list(block) for block in (branch.then_block, branch.else_block)]
    if all(block[-1].op == "end_branch" for block in blocks):
        return _flagged(branch, blocks, rest, frame, written)
    sides = [
        _sequence(_going_on(branch, block, rest), frame)
        if block[-1].op == "end_branch"
        else _sequence(block, frame)
        for block in blocks
    ]
    return _branch(branch.cond, branch.loc, sides, frame.types(), written)


def _flagged(
    branch: Any, blocks: list[list[Any]], rest: Sequence[Any], frame: _Frame, written: list[Any]
) -> list[Any]:
    """Write a branch of which both sides may go on, then the rest under a flag."""
    inner = _Branch(branch, frame)
    sides = [_sequence(block, inner) for block in blocks]
    results = _branch(branch.cond, branch.loc, sides, inner.types(), written)
    for var, value in zip(_tiles(branch.result_vars), results):
        written.append(_assigned(var, value, branch.loc))
    kept = results[len(inner.own) : -1]
    return _branch(
        results[-1], branch.loc, [_sequence(rest, frame), ([], kept)], frame.types(), written
    )


def _branch(
    condition: Any, loc: Any, sides: Sequence[Any], types: Sequence[Any], written: list[Any]
) -> list[Any]:
    results = [_Value(kind) for kind in types]
    then, other = (
        [*operations, SimpleNamespace(op="end_branch", loc=loc, result_vars=(), outputs=values)]
        for operations, values in sides
    )
    written.append(_ifelse(condition, loc, results, then, other))
    return results


def _ifelse(condition: Any, loc: Any, results: Sequence[Any], then: Any, other: Any) -> Any:
    return SimpleNamespace(
        op="ifelse",
        loc=loc,
        cond=condition,
        result_vars=tuple(results),
        then_block=then,
        else_block=other,
        nested_blocks=(then, other),
    )


def _going_on(branch: Any, block: list[Any], rest: Sequence[Any]) -> list[Any]:
    """Return a branch's operations, its results by name, and the rest."""
    pairs = zip(branch.result_vars, block[-1].outputs)
    named = [_assigned(var, value, branch.loc) for var, value in pairs if is_tile(var)]
    return [*block[:-1], *named, *rest]


def _all_inside(operations: Iterable[Any]) -> list[Any]:
    return [written for operation in operations for written in _inside(operation)]


def _inside(operation: Any) -> list[Any]:
    """Return an operation whose own blocks have no exits inside of branches."""
    if operation.op == "loop":
        return _loop(operation)
    if operation.op == "ifelse":
        sides = map(_all_inside, (operation.then_block, operation.else_block))
        return [_ifelse(operation.cond, operation.loc, operation.result_vars, *sides)]
    return [operation]


def _loop(loop: Any) -> list[Any]:
    body = list(loop.body)
    leaves = any(map(_may_leave, body))
    if not leaves and body[-1].op == "break":
        return _once(loop, body)
    if not leaves or _is_plain_while(loop, body):
        return [_with_body(loop, _all_inside(body))]
    if loop.is_for_loop:
        operations, values = _sequence(body, _Iteration(loop))
        return [_with_body(loop, [*operations, _exit("continue", values, loop.loc)])]
    return _flagged_while(loop)


def _once(loop: Any, body: list[Any]) -> list[Any]:
    """Return the operations of a loop that always breaks at its end."""
    starts, ends = zip(loop.body_vars, loop.initial_values), zip(loop.result_vars, body[-1].values)
    first, last = (
        [_assigned(var, value, loop.loc) for var, value in pairs if is_tile(var)]
        for pairs in (starts, ends)
    )
    return [*first, *_all_inside(body[:-1]), *last]


def _flagged_while(loop: Any) -> list[Any]:
    """Return a loop that a carried flag ends."""
    flag = next(filter(_may_leave, loop.body)).cond.get_type()
    before: list[Any] = []
    start, carried = _constant(flag, True, loop.loc, before), _Value(flag)
    operations, values = _sequence(list(loop.body), _Iteration(loop, flag))
    variables = (*_tiles(loop.body_vars), carried)
    goes_on = SimpleNamespace(op="end_branch", loc=loop.loc, result_vars=(), outputs=())
    leaves = _ifelse(carried, loop.loc, (), [goes_on], [_exit("break", variables, loop.loc)])
    initial = [v for v, var in zip(loop.initial_values, loop.body_vars) if is_tile(var)]
    flagged = SimpleNamespace(
        op="loop",
        loc=loop.loc,
        is_for_loop=False,
        body_vars=variables,
        initial_values=(*initial, start),
        result_vars=(*_tiles(loop.result_vars), _Value(flag)),
    )
    return [
        *before,
        _with_body(flagged, [leaves, *operations, _exit("continue", values, loop.loc)]),
    ]


def _with_body(loop: Any, body: list[Any]) -> Any:
    names = ("op", "loc", "result_vars", "body_vars", "initial_values", "is_for_loop")
    counted = ("start", "stop", "step", "induction_var") if loop.is_for_loop else ()
    kept = {name: getattr(loop, name) for name in (*names, *counted)}
    return SimpleNamespace(**kept, body=body, nested_blocks=(body,))


def _is_plain_while(loop: Any, body: list[Any]) -> bool:
    """Tell whether a loop is left at one place, where no memory is accessed."""
    first = next(at for at, operation in enumerate(body) if _may_leave(operation))
    blocks = [list(block) for block in body[first].nested_blocks]
    ends = [block[-1].op for block in blocks]
    if loop.is_for_loop or ends.count("break") != 1 or body[-1].op == "break":
        return False
    inner = [operation for block in blocks for operation in block]
    leaving = blocks[ends.index("break")]
    return not any(map(_may_leave, (*inner, *body[first + 1 :]))) and not any(
        map(_accesses, leaving)
    )


def _accesses(operation: Any) -> bool:
    """Tell whether an operation accesses memory or contains others."""
    effect = getattr(operation, "memory_effect", None)
    is_access = effect is not None and effect.name != "NONE"
    return is_access or bool(getattr(operation, "nested_blocks", ()))


def _may_leave(operation: Any) -> bool:
    """Tell whether an operation is a branch with an exit, in itself or deeper."""
    if operation.op != "ifelse":
        return False
    blocks = (list(block) for block in (operation.then_block, operation.else_block))
    return any(block[-1].op in _EXITS or any(map(_may_leave, block)) for block in blocks)


def _tiles(values: Sequence[Any]) -> list[Any]:
    return [value for value in values if is_tile(value)]


def _exit(name: str, values: Sequence[Any], loc: Any) -> Any:
    return SimpleNamespace(op=name, loc=loc, result_vars=(), values=tuple(values))


def _assigned(var: Any, value: Any, loc: Any) -> Any:
    return SimpleNamespace(op="assign", loc=loc, result_vars=(var,), value=value)


def _constant(kind: Any, number: int, loc: Any, into: list[Any]) -> Any:
    """Write a constant and return it."""
    var = _Value(kind)
    into.append(SimpleNamespace(op="typed_const", loc=loc, result_vars=(var,), value=number))
    return var


def _unused(kinds: Sequence[Any], loc: Any, into: list[Any]) -> list[Any]:
    """Write values that nobody reads."""
    return [_constant(kind, 0, loc, into) for kind in kinds]
