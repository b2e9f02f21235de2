"""Loops with equal iterations: followed for a few of them, extrapolated for the rest."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from solkit.adapters.triton_ir import Operation
from solkit.analysis.triton.arithmetic import lead
from solkit.analysis.triton.relevance import ACCESSES

if TYPE_CHECKING:
    from solkit.analysis.triton.control import Control

__all__ = ["PICKS", "Compared", "Counts", "LoopExtrapolator", "is_linear"]

Array = np.ndarray[Any, np.dtype[Any]]
Value = Any
"""An array, a `Descriptor`, or ``None`` if unknown."""

Compared = dict[Operation, list[Array]]
"""Comparisons, with a hash of each program's results each time that one was made."""

_PROBED, _TAIL = 3, 5
_MOST_IN_VAIN = 8


class Counts:
    """Numbers by key and program, which a loop can extrapolate."""

    def __init__(self, programs: int) -> None:
        self.programs = programs
        self.by_key: dict[Any, Array] = {}

    def add(self, key: Any, amount: Array) -> None:
        """Add to a key's numbers; `amount` broadcasts to [programs]."""
        total = self.by_key.get(key)
        if total is None:
            self.by_key[key] = np.broadcast_to(amount, (self.programs,)).astype(np.float64)
        else:
            self.by_key[key] = total + amount  # not in place: a copy may share the array

    def copy(self) -> dict[Any, Array]:
        """Return the present numbers."""
        return dict(self.by_key)

    def since(self, earlier: Mapping[Any, Array]) -> dict[Any, Array]:
        """Return what was added since, without zeros."""
        changed = {k: n for k, n in self.by_key.items() if n is not earlier.get(k)}
        grown = {key: n - earlier.get(key, 0) for key, n in changed.items()}
        return {key: n for key, n in grown.items() if n.any()}


class LoopExtrapolator:
    """Extrapolation of a loop, as far as its iterations repeat.

    A loop qualifies if its iterations differ only by constant steps: no relevant value that changes
    with the iteration goes through a division, a choice or a branch. Once two successive iterations
    counted the same and moved by the same steps, so do all up to the point where a comparison
    changes its result, except for the last few. A comparison of values that move by constant steps
    changes its result at most once: if both ends of a stretch agree, so does all in between.
    """

    def __init__(self, programs: Control, operation: Operation, linear: bool, trips: Array) -> None:
        loop = operation.loop
        self.programs = programs
        self.relevant = [name in programs.relevant for name in loop.names]
        self.possible = linear and bool(trips.max() > _PROBED + _TAIL)
        self.loop, self.body = loop, operation.blocks[0]
        self.rounds: Array = np.zeros(programs.counts.programs, np.int64)  # since it skipped
        self.in_vain = 0
        self.counted: dict[Any, Array] = {}
        self.steps: list[Value] = []

    def skip(
        self,
        before: Mapping[Any, Array],
        running: Array,
        trips: Array,
        done: Array,
        old: list[Value],
        new: list[Value],
        index: Array,
        by: Array,
    ) -> tuple[Array, list[Value]]:
        """Skip iterations if possible; return those done, and the values.

        Args:
            before: the counts when the iteration started.
            running: which programs made it.
            trips: all iterations of each program.
            done: those already made.
            old: the carried values at its start.
            new: the same at its end.
            index: the loop's variable in the next iteration.
            by: the loop's step.
        """
        if not self.possible:
            return done, new
        remaining = np.where(running, np.maximum(trips - done - _TAIL, 0), 0)
        if not remaining.any() or self.in_vain > _MOST_IN_VAIN:
            self.possible = False
            return done, new
        counted = self.programs.counts.since(before)
        steps = [
            _difference(n, v) if r else None
            for n, v, r in zip(new, old, self.relevant, strict=True)
        ]
        self.rounds = self.rounds + running
        often = self.rounds >= _PROBED
        if often.any():
            remaining = np.where(often & self._alike(counted, steps), remaining, 0)
        self.counted, self.steps = counted, steps
        if not often.any() or not remaining.any():
            return done, new
        remaining = self._until_changes(remaining, new, index, by)
        self.in_vain += not remaining.any()
        for key, amount in counted.items():
            self.programs.counts.add(key, amount * remaining)
        self.rounds = np.where(remaining > 0, 0, self.rounds)  # the next may differ
        return done + remaining, self._moved(new, remaining)

    def _moved(self, values: list[Value], remaining: Array) -> list[Value]:
        return [
            n if step is None else n + step * lead(remaining, n)
            for n, step in zip(values, self.steps, strict=True)
        ]

    def _until_changes(self, remaining: Array, new: list[Value], index: Array, by: Array) -> Array:
        """As many iterations as leave all comparisons unchanged in the one after them."""
        now = self.programs.compared
        while now and remaining.any():
            self.programs.active = remaining > 0
            values = dict(zip(self.loop.names, self._moved(new, remaining), strict=True))
            values[self.loop.variable] = index + remaining * by
            same = _same(now, self.programs.would_compare(self.body, values), len(remaining))
            if (same | (remaining == 0)).all():
                break
            remaining = np.where(same, remaining, remaining // 2)
        return remaining

    def _alike(self, counted: Mapping[Any, Array], steps: list[Value]) -> Array:
        """Tell which programs did the same as before."""
        alike = np.ones(self.programs.counts.programs, bool)
        for key in counted.keys() | self.counted.keys():
            alike &= np.equal(counted.get(key, 0.0), self.counted.get(key, 0.0))
        for step, before in zip(steps, self.steps, strict=False):  # there is none at first
            if (step is None) != (before is None):
                return np.zeros_like(alike)
            if step is not None:
                changed = step != before
                alike &= ~changed.reshape(len(changed), -1).any(1)
        return alike


def _difference(new: Value, old: Value) -> Value:
    """Return what was added; ``None`` for flags, which change with a comparison, and unknowns."""
    if not (isinstance(new, np.ndarray) and isinstance(old, np.ndarray)) or new.dtype == bool:
        return None
    return new - old


def _same(
    now: Mapping[Operation, Sequence[Array]], then: Mapping[Operation, Sequence[Array]], count: int
) -> Array:
    """Tell which programs' comparisons agree."""
    same = np.ones(count, bool)
    for operation in now.keys() | then.keys():
        pairs = now.get(operation, ()), then.get(operation, ())
        if len(pairs[0]) != len(pairs[1]):
            return np.zeros(count, bool)
        for a, b in zip(*pairs, strict=True):
            same &= a == b
    return same


PICKS = {"arith.minsi", "arith.maxsi"}
"""Operations whose result changes its step when the other operand is picked."""

_LINEAR = {
    *("arith.addi", "arith.subi", "arith.muli", "arith.extsi", "arith.extui", "arith.trunci"),
    *("tt.addptr", "tt.splat", "tt.broadcast", "tt.expand_dims", "ttg.convert_layout"),
    *("arith.minsi", "arith.maxsi", "arith.index_cast", "arith.cmpi", "arith.andi", "tt.load"),
    *("tt.reshape", "tt.trans", "scf.yield", "arith.shli", "tt.bitcast"),
}
"""Operations that keep a step constant, except where a comparison changes."""


def is_linear(operation: Operation, relevant: frozenset[str]) -> bool:
    """Tell whether a loop's iterations differ only by constant steps, except for comparisons."""
    loop = operation.loop
    carried = {n for n in loop.names if n in relevant}
    varying = {loop.variable, *carried}
    for inner in operation.blocks[0].walk():
        if inner.name == "ttg.local_store" and inner.operands[1] in relevant:
            return False
        used = varying.intersection(inner.operands)
        if not used or (inner.name in ACCESSES and not relevant.intersection(inner.results)):
            continue
        if inner.name == "scf.if":
            return False
        if inner.name == "scf.for":
            nested = inner.loop
            varying.update(n for n, s in zip(nested.names, nested.starts) if s in varying)
            varying.update(inner.results)
        elif relevant.intersection(inner.results):
            if inner.name not in _LINEAR:
                return False
            varying.update(inner.results)
    return True
