"""Loops with equal iterations: most of them are skipped.

If carried values move by constant steps, and an iteration counts the same as the previous one, so
do all that follow, up to the point where a comparison changes. That point follows by arithmetic.
Addresses repeat their place within a line of memory, and divisions, masks and shifts their result,
only after several iterations; these are taken together (a *period*).

A loop that does not repeat in this way runs for its first iterations. The rest is assumed to be
like them on average, and a note says so.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from solkit.analysis.common.ptx_code import Statement
from solkit.analysis.common.ptx_numbers import Array
from solkit.analysis.cuda.flow import Kernel, Loop, is_computed, registers_of

__all__ = ["Comparison", "LoopExtrapolator", "Tables"]

_LONGEST_PERIOD = 64
_PATIENCE = 96
"""Iterations of a loop that does not repeat, before the rest is extrapolated; a quarter of that if
it contains loops."""
_MOST_TRACED = 4096
_FOREVER = float(1 << 60)
_SEGMENT = "segment"
"""Used like a comparison: a shift, division or remainder continues in the same way until its
operand passes a multiple of a number."""
_LINEAR = frozenset("add sub mov cvt cvta neg setp selp min max mul mad shl ld".split())
_PERIODIC = frozenset("and or xor shr rem div bfe lop3 bfi prmt not".split())


class Tables:
    """Numbers by key and block."""

    def __init__(self, blocks: int) -> None:
        self.blocks = blocks
        self.rows: dict[Any, int] = {}
        self.values: Array = np.zeros((32, blocks))

    def add(self, key: Any, amount: Array | float) -> None:
        """Add to a key's numbers; `amount` broadcasts to [blocks]."""
        row = self.rows.setdefault(key, len(self.rows))
        if row == len(self.values):
            self.values = np.concatenate([self.values, np.zeros_like(self.values)])
        self.values[row] += amount

    def of(self, key: Any) -> Array:
        """Return a key's numbers; zeros by default."""
        row = self.rows.get(key)
        row_values: Array = np.zeros(self.blocks) if row is None else self.values[row]
        return row_values

    def __contains__(self, key: Any) -> bool:
        return key in self.rows

    def copy(self) -> Array:
        """Return all present numbers, for `since`."""
        return self.values[: len(self.rows)].copy()

    def since(self, before: Array) -> Array:
        """Return what was added to each row."""
        now = self.values[: len(self.rows)].copy()
        now[: len(before)] -= before
        return now


@dataclass(frozen=True, eq=False)
class Comparison:
    """A comparison that was made: its operands and threads."""

    statement: Statement
    kind: str
    a: Array
    b: Array
    active: Array


@dataclass(frozen=True, eq=False)
class _Mark:
    """The state at the start of a period."""

    registers: Mapping[str, Array | None]
    active: Array
    counts: Array


class LoopExtrapolator:
    """One loop of a kernel while it runs.

    Args:
        loop: the loop.
        kernel: contains it.
        tables: counts.
        line_bytes: period of what addresses count; 1 if it does not matter.
    """

    def __init__(self, loop: Loop, kernel: Kernel, tables: Tables, line_bytes: int = 128) -> None:
        self.loop = loop
        self.tables = tables
        self.line_bytes = line_bytes
        self.statements = [
            statement
            for block in kernel.blocks[loop.header : loop.last + 1]
            for statement in block.statements
        ]
        varying = _varying(self.statements, loop.carried)
        self.periodic, self.irregular = _kinds(self.statements, varying, kernel.relevant)
        self.segmented: set[int] = set()
        self.exits = _exits(kernel, loop)
        self.outer = any(loop.header < other.header <= loop.last for other in kernel.loops)
        self.patience = _PATIENCE
        self.period = 1
        self.entered()

    def entered(self) -> None:
        """Enter it from outside: forget what was seen before."""
        self.visits = self.at = 0
        self.failures = 0
        self.marks: list[_Mark] = []
        self.steps: Mapping[str, Array | None] | None = None
        self.counted: Array | None = None
        self.traces: list[list[Comparison]] = [[], []]
        self.seen: dict[int, tuple[Array, int]] = {}
        self.before: dict[int, tuple[Array, int]] = {}
        self.start: Array | None = None

    # -------------------------------------------------------------------------------- what happens

    def compared(self, comparison: Comparison) -> None:
        """Record a comparison inside the loop."""
        if len(self.traces[-1]) < _MOST_TRACED:
            self.traces[-1].append(comparison)

    def observe(self, statement: Statement, values: Sequence[Array], active: Array) -> None:
        """Record a statement that was computed inside the loop."""
        if id(statement) not in self.periodic:
            return
        modulus = _modulus(statement, values)
        if id(statement) in self.segmented:
            within = np.array([[modulus]])
            self.compared(Comparison(statement, _SEGMENT, values[0], within, active))
        else:
            self.seen[id(statement)] = (values[0], modulus)

    def accessed(self, statement: Statement, addresses: Array) -> None:
        """Memory was accessed inside."""
        if self.line_bytes > 1:
            self.seen[id(statement)] = (addresses, self.line_bytes)

    def arrive(
        self, active: Array, registers: dict[str, Array | None], patience: int | None = None
    ) -> str:
        """At its header, before an iteration; skips iterations if possible.

        Args:
            active: the threads at the header.
            registers: of all threads; those that the loop carries are moved.
            patience: iterations after which to extrapolate it, if that should be soon.

        Returns:
            What was assumed; empty if nothing.
        """
        self.visits += 1
        if patience is not None and self.visits >= patience:
            self.irregular, self.period = True, 1
        self.patience = patience or (_PATIENCE // 4 if self.outer else _PATIENCE)
        if self.visits == 1:
            self.start = self.tables.copy()
        due = not self.marks or self.visits - self.at >= self.period
        if not self.irregular and (self.visits == 3 or (self.visits > 3 and due)):
            self._lengthen()
        self.before, self.seen = self.seen, {}
        if self.marks and self.visits - self.at < self.period:
            return ""
        self.at = self.visits
        sentence = self._period_ends(active, registers)
        now = {name: registers.get(name) for name in self.loop.carried}
        self.marks = [_Mark(now, active, self.tables.copy())]
        self.traces = [self.traces[-1], []]
        return sentence

    def _lengthen(self) -> None:
        """Take as many iterations together as addresses and remainders need to repeat."""
        period, segmented_before = self.period, len(self.segmented)
        for key, (values, modulus) in self.seen.items():
            if key in self.before and modulus > 1:
                steps = np.abs(values - self.before[key][0])
                common = int(np.gcd.reduce(np.unique(steps % modulus), initial=modulus))
                longer = math.lcm(period, modulus // common)
                if longer > _LONGEST_PERIOD and key in self.periodic:
                    self.segmented.add(key)
                else:
                    period = min(longer, _LONGEST_PERIOD)
        if period != self.period or len(self.segmented) > segmented_before:
            self.period, self.at = period, self.visits - period  # a new one starts here
            self._forget()

    def _forget(self) -> None:
        self.marks, self.steps, self.counted = [], None, None
        self.traces = [[], []]

    def _period_ends(self, active: Array, registers: dict[str, Array | None]) -> str:
        if not self.marks:
            return ""
        mark = self.marks[0]
        steps = {n: _difference(registers.get(n), old) for n, old in mark.registers.items()}
        counted = self.tables.since(mark.counts)
        alike = (active == mark.active).all(1) & active.any(1)
        if self.steps is not None and self.counted is not None:
            alike = alike & _same_steps(steps, self.steps, active.shape)
            alike = alike & self._same_counts(counted, self.counted)
        else:
            alike = np.zeros_like(alike)
        self.steps, self.counted = steps, counted
        if self.irregular:
            return self._extrapolate(active, registers)
        remaining = self._periods_left(self.traces[0], self.traces[1], alike)
        if remaining.any():
            self._go_ahead(remaining, registers, steps, counted)
            self.failures = 0
            return ""
        self.failures += not alike.any()
        if self.failures > 4 and self.period <= 2:
            self.period, self.failures = 2 * self.period, 0
            self._forget()
        elif self.failures > 8:
            self.irregular, self.period = True, 1
        return ""

    def _go_ahead(
        self,
        remaining: Array,
        registers: dict[str, Array | None],
        steps: Mapping[str, Array | None],
        counted: Array,
    ) -> None:
        self.tables.values[: len(counted)] += counted * remaining
        for name, step in steps.items():
            value = registers.get(name)
            if step is not None and value is not None and step.any():
                registers[name] = value + step * remaining.astype(np.int64)[:, None]
        self._forget()

    def _extrapolate(self, active: Array, registers: dict[str, Array | None]) -> str:
        """Extrapolate a loop that does not repeat, up to the comparisons that end it."""
        if self.visits < self.patience or self.start is None or self.steps is None:
            return ""
        ending = [[c for c in trace if _result(c.statement) in self.exits] for trace in self.traces]
        remaining = self._periods_left(ending[0], ending[1], np.asarray(active.any(1)))
        if not remaining.any():
            return ""
        per_visit = self.tables.since(self.start) / (self.visits - 1)
        self._go_ahead(remaining, registers, self.steps, per_visit)
        done, self.visits = self.visits - 1, 0
        return f"a loop whose iterations differ is taken to go on like its first {done}"

    # ---------------------------------------------------------------------------------- how far

    def _periods_left(
        self, before: Sequence[Comparison], now: Sequence[Comparison], alike: Array
    ) -> Array:
        """Return periods of each block that may be skipped: all but the last equal one."""
        none = np.zeros(len(alike))
        same = len(before) == len(now) < _MOST_TRACED and all(
            a.statement is b.statement for a, b in zip(before, now)
        )
        if not same or not alike.any():
            return none
        until = np.full(len(alike), _FOREVER)
        for old, new in zip(before, now):
            until = np.minimum(until, _first_change(old, new))
        periods = np.where(alike & (until < _FOREVER), until - 2, 0.0)
        return np.asarray(np.maximum(periods, 0.0))

    def _same_counts(self, now: Array, before: Array) -> Array:
        """Tell which blocks of the launch ran the same code as often."""
        rows = [row for key, row in self.tables.rows.items() if key[0] == "runs"]
        rows = [row for row in rows if row < len(before)]
        return np.asarray((now[rows] == before[rows]).all(0))


def _difference(now: Array | None, before: Array | None) -> Array | None:
    return None if now is None or before is None else now - before


def _same_steps(
    now: Mapping[str, Array | None], before: Mapping[str, Array | None], shape: Sequence[int]
) -> Array:
    alike = np.ones(shape[0], bool)
    for name, step in now.items():
        old = before.get(name)
        if (step is None) != (old is None):
            return np.zeros(shape[0], bool)
        if step is not None and old is not None:
            alike &= np.broadcast_to((step == old).all(1), alike.shape)
    return alike


def _first_change(old: Comparison, new: Comparison) -> Array:
    """Return the first period, with the last one as 0, in which a comparison changes."""
    if new.kind == _SEGMENT:
        return _end_of_segment(old, new)
    apart = new.a - new.b
    step = apart - (old.a - old.b)
    kind = {"lo": "lt", "ls": "le", "hi": "gt", "hs": "ge"}.get(new.kind, new.kind)
    if kind in ("gt", "ge"):
        apart, step, kind = -apart, -step, {"gt": "lt", "ge": "le"}[kind]
    safe = np.where(step == 0, 1, step)
    if kind in ("eq", "ne"):
        ahead = -apart // safe
        meets = (step != 0) & (-apart % np.abs(safe) == 0) & (ahead > 0)
        until = np.where(apart == 0, np.where(step != 0, 1, _FOREVER), _FOREVER)
        until = np.where((apart != 0) & meets, ahead, until)
    else:
        limit = apart if kind == "lt" else apart - 1  # of integers, a <= b is a - b - 1 < 0
        rising = (limit < 0) & (step > 0)
        falling = (limit >= 0) & (step < 0)
        until = np.where(rising, -(limit // safe), _FOREVER)
        until = np.where(falling, limit // np.abs(safe) + 1, until)
    who = np.broadcast_to(new.active, np.broadcast_shapes(new.active.shape, until.shape))
    periods: Array = np.where(who, until, _FOREVER).min(1)
    return periods


def _end_of_segment(old: Comparison, new: Comparison) -> Array:
    step = new.a - old.a
    place = new.a % new.b
    pace = np.maximum(np.abs(step), 1)
    until = np.where(
        step > 0, -((place - new.b) // pace), np.where(step < 0, place // pace + 1, _FOREVER)
    )
    shape = np.broadcast_shapes(new.active.shape, until.shape)
    return np.asarray(np.where(np.broadcast_to(new.active, shape), until, _FOREVER).min(1))


# ---------------------------------------------------------------------------- what may be repeated


def _varying(statements: Iterable[Statement], carried: Iterable[str]) -> frozenset[str]:
    """Return the registers that depend on carried ones."""
    varying = set(carried)
    listed = [registers_of(statement) for statement in statements]
    changed = True
    while changed:
        changed = False
        for written, read in listed:
            if not varying.isdisjoint(read) and not varying.issuperset(written):
                varying.update(written)
                changed = True
    return frozenset(varying)


def _kinds(
    statements: Iterable[Statement], varying: frozenset[str], relevant: frozenset[str]
) -> tuple[frozenset[int], bool]:
    """Return ids of statements that repeat after some iterations; and whether some never do."""
    periodic: set[int] = set()
    irregular = False
    for statement in statements:
        written, read = registers_of(statement)
        moving = [name for name in read if name in varying and name != statement.guard.lstrip("!")]
        if relevant.isdisjoint(written) or not moving or not is_computed(statement):
            continue
        if statement.name in _PERIODIC and "pred" not in statement.modifiers:
            periodic.add(id(statement))
            irregular |= statement.name in ("rem", "div") and statement.operands[2] in varying
        elif statement.name in _LINEAR:
            irregular |= _is_product(statement, varying) or statement.name == "ld"
        elif statement.name not in ("and", "or", "xor", "not", "shfl", "bar"):
            irregular = True
    return frozenset(periodic), irregular


def _is_product(statement: Statement, varying: frozenset[str]) -> bool:
    """Tell whether it multiplies two varying factors, or keeps a product's upper half."""
    if statement.name not in ("mul", "mad", "shl"):
        return False
    factors = [name for name in statement.operands[1:3] if name in varying]
    if not factors:
        return False
    by_shift = statement.name == "shl" and statement.operands[2] in varying
    return len(factors) > 1 or "hi" in statement.modifiers or by_shift


def _modulus(statement: Statement, values: Sequence[Array]) -> int:
    """Return the period of a statement's result in its first operand, up to a step."""
    if statement.name in ("rem", "div"):
        numbers = np.unique(values[1])
        return max(int(numbers[0]), 1) if len(numbers) == 1 else 1 << 30
    if statement.name == "shr":
        return 1 << min(int(np.max(values[1])), 40)
    if statement.name == "bfe":
        return 1 << min(int(np.max(values[1] + values[2])), 40)
    fixed = [int(np.max(np.abs(value))) for value in values[1:] if value.size == 1]
    mask = max(fixed, default=1 << 30)
    if statement.name == "and" and mask:
        flipped = ~mask & 0xFFFFFFFF
        mask = min(mask, flipped) if flipped & (flipped + 1) == 0 else mask
    return 1 << min(mask.bit_length(), 40)


def _exits(kernel: Kernel, loop: Loop) -> frozenset[str]:
    """Return predicates that branches out of the loop depend on."""
    guards = [
        block.statements[-1].guard.lstrip("!")
        for block in kernel.blocks[loop.header : loop.last + 1]
        if any(not loop.header <= to <= loop.last for to in block.targets)
    ]
    return frozenset(name for name in kernel.depends_on(guards) if name.startswith("%p"))


def _result(statement: Statement) -> str:
    return statement.operands[0].partition("|")[0].strip()
