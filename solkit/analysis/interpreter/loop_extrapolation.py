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
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from solkit.analysis.interpreter.control_flow import Instruction, Loop
from solkit.analysis.interpreter.counters import Counters
from solkit.analysis.interpreter.front_end import FrontEnd, Motion
from solkit.analysis.interpreter.values import Array

_LONGEST_PERIOD = 64
_PATIENCE = 96
"""Iterations of a loop that does not repeat, before the rest is extrapolated; a quarter of that if
it contains loops."""
_MOST_TRACED = 4096
_FOREVER = float(1 << 60)
_SEGMENT = "segment"
"""Used like a comparison: a shift, division or remainder continues in the same way until its
operand passes a multiple of a number."""


@dataclass(frozen=True, eq=False)
class Comparison:
    """A comparison that was made: its operands and threads."""

    instruction: Instruction
    kind: str
    a: Array
    b: Array
    active: Array


@dataclass(frozen=True, eq=False)
class _Mark:
    """The state at the start of a period."""

    registers: Mapping[str, Array | None]
    active: Array
    counts: Mapping[Any, Array]


class LoopExtrapolator:
    """One loop of a kernel while it runs.

    Args:
        loop: the loop.
        front_end: of the kernel.
        counters: of all programs.
        line_bytes: period of what addresses count; 1 if it does not matter.
    """

    def __init__(
        self, loop: Loop, front_end: FrontEnd, counters: Counters, line_bytes: int = 128
    ) -> None:
        flow = front_end.flow
        self.loop = loop
        self.front_end = front_end
        self.counters = counters
        self.line_bytes = line_bytes
        motions = _motions(front_end, loop)
        self.periodic = {i for i, motion in motions.items() if motion is Motion.PERIODIC}
        self.irregular = Motion.IRREGULAR in motions.values()
        self.segmented: set[Instruction] = set()
        guards = (b.instructions[-1].condition for b in flow.inside(loop) if loop.is_left_by(b))
        self.exits = set(filter(front_end.is_flag, flow.depends_on(guards)))
        self.outer = any(loop.header < other.header <= loop.last for other in flow.loops)
        self.patience = _PATIENCE
        self.period = 1
        self.entered()

    def entered(self) -> None:
        """Enter it from outside: forget what was seen before."""
        self.visits = self.at = 0
        self.failures = 0
        self.marks: list[_Mark] = []
        self.steps: Sequence[Array | None] | None = None
        self.counted: Mapping[Any, Array] | None = None
        self.traces: list[list[Comparison]] = [[], []]
        self.seen: dict[Instruction, tuple[Array, int]] = {}
        self.before: dict[Instruction, tuple[Array, int]] = {}
        self.start: Mapping[Any, Array] | None = None

    # -------------------------------------------------------------------------------- what happens

    def compared(self, comparison: Comparison) -> None:
        """Record a comparison inside the loop."""
        if len(self.traces[-1]) < _MOST_TRACED:
            self.traces[-1].append(comparison)

    def observe(self, instruction: Instruction, values: Sequence[Array], active: Array) -> None:
        """Record an instruction that was computed inside the loop."""
        if instruction not in self.periodic:
            return
        modulus = self.front_end.period(instruction, values)
        if instruction in self.segmented:
            within = np.array([[modulus]])
            self.compared(Comparison(instruction, _SEGMENT, values[0], within, active))
        else:
            self.seen[instruction] = (values[0], modulus)

    def accessed(self, instruction: Instruction, addresses: Array) -> None:
        """Record addresses of an access inside the loop."""
        if self.line_bytes > 1:
            self.seen[instruction] = (addresses, self.line_bytes)

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
            self.start = self.counters.snapshot()
        due = not self.marks or self.visits - self.at >= self.period
        if not self.irregular and (self.visits == 3 or (self.visits > 3 and due)):
            self._lengthen()
        self.before, self.seen = self.seen, {}
        if self.marks and self.visits - self.at < self.period:
            return ""
        self.at = self.visits
        sentence = self._period_ends(active, registers)
        now = {name: registers.get(name) for name in self.loop.carried}
        self.marks = [_Mark(now, active, self.counters.snapshot())]
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
        steps = [_difference(registers.get(n), old) for n, old in mark.registers.items()]
        counted = self.counters.since(mark.counts)
        alike = (active == mark.active).all(1) & active.any(1)
        if self.steps is not None and self.counted is not None:
            alike = alike & _same_steps(steps, self.steps, len(active))
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
        steps: Sequence[Array | None],
        counted: Mapping[Any, Array],
    ) -> None:
        self.counters.repeat(counted, remaining)
        for name, step in zip(self.loop.carried, steps, strict=True):
            value = registers.get(name)
            if step is not None and value is not None and step.any():
                registers[name] = value + step * _by_program(remaining, value)
        self._forget()

    def _extrapolate(self, active: Array, registers: dict[str, Array | None]) -> str:
        """Extrapolate a loop that does not repeat, up to the comparisons that end it."""
        if self.visits < self.patience or self.start is None or self.steps is None:
            return ""
        ending = [
            [c for c in trace if c.instruction.written[0] in self.exits] for trace in self.traces
        ]
        remaining = self._periods_left(ending[0], ending[1], np.asarray(active.any(1)))
        if not remaining.any():
            return ""
        counted = self.counters.since(self.start).items()
        per_visit = {key: amount / (self.visits - 1) for key, amount in counted}
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
            a.instruction is b.instruction for a, b in zip(before, now)
        )
        if not same or not alike.any():
            return none
        until = np.full(len(alike), _FOREVER)
        for old, new in zip(before, now):
            until = np.minimum(until, _first_change(old, new))
        periods = np.where(alike & (until < _FOREVER), until - 2, 0.0)
        return np.asarray(np.maximum(periods, 0.0))

    def _same_counts(self, now: Mapping[Any, Array], before: Mapping[Any, Array]) -> Array:
        """Tell which blocks of the launch ran the same code as often."""
        runs = (key for key in now.keys() | before.keys() if key[0] == "runs")
        return self.counters.are_equal(now, before, runs)


def _difference(now: Any, before: Any) -> Array | None:
    """Return what was added; ``None`` for flags, which change with a comparison, and unknowns."""
    if not (isinstance(now, np.ndarray) and isinstance(before, np.ndarray)) or now.dtype == bool:
        return None
    return now - before


def _same_steps(
    now: Sequence[Array | None], before: Sequence[Array | None], programs: int
) -> Array:
    """Tell which programs' values moved by the same steps."""
    alike = np.ones(programs, bool)
    for step, old in zip(now, before, strict=True):
        if (step is None) != (old is None):
            return np.zeros(programs, bool)
        if step is not None and old is not None:
            same = np.equal(step, old)
            alike &= same.reshape(len(same), -1).all(1)
    return alike


def _by_program(numbers: Array, like: Array) -> Array:
    """[programs] as [programs, 1, ...] of the rank of `like`."""
    return numbers.astype(np.int64).reshape(-1, *(1,) * (like.ndim - 1))


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


def _motions(front_end: FrontEnd, loop: Loop) -> Mapping[Instruction, Motion]:
    """Return how the relevant results in a loop move that depend on what it carries."""
    flow = front_end.flow
    instructions = [i for block in flow.inside(loop) for i in block.instructions]
    varying = _varying(instructions, loop.carried)
    motions: dict[Instruction, Motion] = {}
    for instruction in instructions:
        moving = (name in varying and name != instruction.condition for name in instruction.read)
        is_relevant = not flow.relevant.isdisjoint(instruction.written)
        if is_relevant and instruction.is_computed and any(moving):
            motions[instruction] = front_end.motion(instruction, varying)
    return motions


def _varying(instructions: Sequence[Instruction], carried: Iterable[str]) -> frozenset[str]:
    """Return the registers that depend on carried ones."""
    varying = set(carried)
    changed = True
    while changed:
        changed = False
        for instruction in instructions:
            written = instruction.written
            if not varying.isdisjoint(instruction.read) and not varying.issuperset(written):
                varying.update(written)
                changed = True
    return frozenset(varying)


# ----------------------------------------------------------------------- loops of known length

Comparisons = dict[Any, list[Array]]
"""Comparisons, with a hash of each program's results each time that one was made."""

_PROBED, _TAIL = 3, 5
_MOST_IN_VAIN = 8
MOST_TRIPS = 1 << 31
"""Iterations of a loop that its own condition ends: what it counts in has 32 bits."""


class CountedLoopExtrapolator:
    """A loop while it runs, whose iterations differ only by constant steps.

    Their number is known, or follows from a condition that fails for good once a value has passed a
    bound.

    Once two successive iterations counted the same and moved by the same steps, so do all up to the
    point where a comparison changes its result, except for the last few, where a software pipeline
    drains. A comparison of values that move by constant steps changes its result at most once: if
    both ends of a stretch agree, so does all in between.

    Args:
        counters: of all programs.
        trips: iterations of each program, or at most so many.
        relevant: which of the carried values matter.
        compare: gives the comparisons that an iteration would make, from the carried values, the
            loop's variable and the programs that make it; nothing is counted.
        goes_on: tells from the carried values which programs make another iteration, if `trips`
            does not say it; nothing is counted.
    """

    def __init__(
        self,
        counters: Counters,
        trips: Array,
        relevant: Sequence[bool],
        compare: Callable[[Sequence[Any], Array, Array], Comparisons],
        goes_on: Callable[[Sequence[Any]], Array] | None = None,
    ) -> None:
        self.counters = counters
        self.trips = trips
        self.goes_on = goes_on
        self.relevant = relevant
        self.compare = compare
        self.is_possible = bool(trips.max() > _PROBED + _TAIL)
        self.rounds: Array = np.zeros(counters.programs, np.int64)  # since it skipped
        self.in_vain = 0
        self.counted: Mapping[Any, Array] = {}
        self.steps: list[Array | None] = []

    def skippable(
        self,
        before: Mapping[Any, Array],
        running: Array,
        done: Array,
        old: Sequence[Any],
        new: Sequence[Any],
        comparisons: Comparisons,
        index: Array,
        by: Array,
    ) -> Array:
        """Count what iterations would count that need not be followed; return how many these are.

        Args:
            before: the counts when the last iteration started.
            running: which programs made it.
            done: iterations already made.
            old: the carried values at its start.
            new: the same at its end.
            comparisons: that it made.
            index: the loop's variable in the next iteration.
            by: the loop's step.
        """
        none = np.zeros_like(done)
        if not self.is_possible:
            return none
        remaining = np.where(running, np.maximum(self.trips - done - _TAIL, 0), 0)
        if not remaining.any() or self.in_vain > _MOST_IN_VAIN:
            self.is_possible = False
            return none
        counted = self.counters.since(before)
        steps = [
            _difference(n, v) if r else None
            for n, v, r in zip(new, old, self.relevant, strict=True)
        ]
        self.rounds = self.rounds + running
        often = self.rounds >= _PROBED
        if often.any():
            keys = counted.keys() | self.counted.keys()
            alike = self.counters.are_equal(counted, self.counted, keys)
            alike &= _same_steps(steps, self.steps or steps, self.counters.programs)
            remaining = np.where(often & alike, remaining, 0)
        self.counted, self.steps = counted, steps
        if not often.any() or not remaining.any():
            return none
        if self.goes_on is not None:
            remaining = np.maximum(self.iterations_left(new, remaining) - _TAIL, 0)
        remaining = self._until_changes(remaining, new, comparisons, index, by)
        self.in_vain += not remaining.any()
        self.counters.repeat(counted, remaining)
        self.rounds = np.where(remaining > 0, 0, self.rounds)  # the next may differ
        return remaining

    def moved(self, values: Sequence[Any], remaining: Array) -> list[Any]:
        """Return carried values after so many more iterations of each program."""
        if not remaining.any():
            return list(values)
        return [
            value if step is None else value + step * _by_program(remaining, value)
            for value, step in zip(values, self.steps, strict=True)
        ]

    def iterations_left(self, values: Sequence[Any], most: Array) -> Array:
        """Count iterations from these values on; 0 if there are `most` or more.

        None is looked at that is over a quarter behind the last: what the condition computes there
        would pass 32 bits, and it might hold again.
        """
        if self.goes_on is None:
            return most
        low, high = np.zeros_like(most), most + 1
        while (high - low > 1).any():
            middle = np.minimum(low + np.maximum(low // 4, 1), (low + high) // 2)
            goes_on = self.goes_on(self.moved(values, middle - 1))
            low, high = np.where(goes_on, middle, low), np.where(goes_on, high, middle)
        return np.where(low < most, low, 0)

    def _until_changes(
        self,
        remaining: Array,
        new: Sequence[Any],
        comparisons: Comparisons,
        index: Array,
        by: Array,
    ) -> Array:
        """As many iterations as leave all comparisons unchanged in the one after them."""
        while comparisons and remaining.any():
            values = self.moved(new, remaining)
            then = self.compare(values, index + remaining * by, remaining > 0)
            same = _same_comparisons(comparisons, then, len(remaining))
            if (same | (remaining == 0)).all():
                break
            remaining = np.where(same, remaining, remaining // 2)
        return remaining


def _same_comparisons(now: Comparisons, then: Comparisons, programs: int) -> Array:
    """Tell which programs' comparisons agree."""
    same = np.ones(programs, bool)
    for key in now.keys() | then.keys():
        pairs = now.get(key, ()), then.get(key, ())
        if len(pairs[0]) != len(pairs[1]):
            return np.zeros(programs, bool)
        for a, b in zip(*pairs, strict=True):
            same &= a == b
    return same
