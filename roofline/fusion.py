"""Fusion levels: a traced problem cut into kernels, each with its own cost.

Everything between two kernels crosses DRAM: a tensor that one makes and a later one reads is a
result of the first and an input of the second. The roofline has one kernel for all ops, eager
PyTorch one per op, and groups are in between:

::

    groups = group {"," group}          ops outside of all groups are kernels of their own
    group  = 3 | 0-3 | 0-2+5            the ops with these numbers
           | mm+relu | softmax          each place where ops with these names follow each other
           | L12 | L12-18               each run of ops that these lines of the file call
"""

from __future__ import annotations

import graphlib
import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from solkit.core import Part
from solkit.errors import InputError
from solkit.ops import operator
from solkit.roofline.names import short_name
from solkit.roofline.work import work_of_live
from solkit.roofline.work.program import Program, TensorUse, TracedOp

_NUMBERS = re.compile(r"(\d+)(?:-(\d+))?")
_LINES = re.compile(r"L(\d+)(?:-L?(\d+))?")
_NAME = re.compile(r"[A-Za-z_]\w*(?:\.\w+)?")


class Kernels:
    """A program, `narrowed` to the ops that matter, ready to be cut.

    Views belong to no kernel, and neither does what costs nothing (an ``empty``).
    """

    def __init__(self, program: Program) -> None:
        self._program = program
        self._uses = _Uses(program.ops, program.results)
        alone = [self._part((position,)) for position in range(len(program.ops))]
        self.unfused = tuple(part for part in alone if part.work.dram_bytes or part.work.operations)

    def grouped(self, groups: str) -> tuple[Part, ...]:
        """Return the kernels that `groups` asks for, in the order of their first ops.

        Raises:
            InputError: `groups` is malformed, names an unknown op or an op twice, or asks for
                kernels that would wait for each other.
        """
        remaining = {part.positions[0]: part for part in self.unfused}
        kernels: list[tuple[int, ...]] = []
        for group in groups.split(","):
            selected = _Group(group, groups).select(list(remaining.values()), self._program.ops)
            kernels += selected
            for position in (position for kernel in selected for position in kernel):
                del remaining[position]
        self._check_order(kernels)
        parts = [*remaining.values(), *map(self._part, kernels)]
        return tuple(sorted(parts, key=lambda part: part.positions))

    def _part(self, positions: tuple[int, ...]) -> Part:
        ops = tuple(self._program.ops[position] for position in positions)
        results = self._uses.results_of(positions)
        work = work_of_live(replace(self._program, ops=ops, results=results))
        names = tuple(op.name for op in ops)
        return Part(positions, names, ops[0].line, replace(work, ops=()))

    def _check_order(self, kernels: Sequence[tuple[int, ...]]) -> None:
        """Raise if a kernel needs what others make from its own results."""
        home = {position: kernel[0] for kernel in kernels for position in kernel}
        graph: dict[int, set[int]] = defaultdict(set)
        for position, needed in self._uses.needs():
            here, there = home.get(position, position), home.get(needed, needed)
            if here != there:
                graph[here].add(there)
        try:
            graphlib.TopologicalSorter(graph).prepare()
        except graphlib.CycleError as error:
            circle = ", ".join(str(position) for position in sorted(set(error.args[1])))
            raise InputError(
                f"groups: the kernels that start with ops {circle} each need what the others make: "
                "put them into one"
            ) from None


class _Uses:
    """Makers, changers and readers of each storage."""

    def __init__(self, live: Sequence[TracedOp], results: Sequence[TensorUse]) -> None:
        self._makes = [{use.storage for use in op.stored} for op in live]
        self._readers: dict[int, list[tuple[int, TensorUse]]] = defaultdict(list)
        for position, op in enumerate(live):
            for use in op.inputs:
                self._readers[use.storage].append((position, use))
        for use in results:
            self._readers[use.storage].append((len(live), use))

    def results_of(self, positions: Sequence[int]) -> tuple[TensorUse, ...]:
        """Return what later ops, or the program's results, use of what these ops make or change."""
        makers: dict[int, int] = {}
        for position in reversed(positions):
            makers.update(dict.fromkeys(self._makes[position], position))
        inside = set(positions)
        return tuple(
            use
            for storage, first in makers.items()
            for reader, use in self._readers[storage]
            if reader > first and reader not in inside
        )

    def needs(self) -> Iterator[tuple[int, int]]:
        """Yield pairs of an op and an earlier one that makes or changes what the op touches."""
        reads: dict[int, set[int]] = defaultdict(set)
        for storage, readers in self._readers.items():
            for position, _ in readers:
                reads[position].add(storage)
        last: dict[int, int] = {}
        for position, makes in enumerate(self._makes):
            for storage in (reads[position] | makes) & last.keys():
                yield position, last[storage]
            last.update(dict.fromkeys(makes, position))


# ----------------------------------------------------------------------------------- groups


@dataclass(frozen=True)
class _Group:
    """One group of the user's.

    Attributes:
        text: the group.
        groups: the whole option, for messages.
    """

    text: str
    groups: str

    def select(self, remaining: Sequence[Part], live: Sequence[TracedOp]) -> list[tuple[int, ...]]:
        """Return the kernels, as positions, that it makes from the remaining parts."""
        terms = [term.strip() for term in self.text.split("+")]
        if all(_NUMBERS.fullmatch(term) for term in terms):
            return [self._numbered(terms, remaining, live)]
        if all(_LINES.fullmatch(term) for term in terms):
            numbers = {n for term in terms for n in _range(_LINES, term)}
            selected = _runs(remaining, lambda part: _line_number(part.line) in numbers)
        elif all(_NAME.fullmatch(term) for term in terms):
            selected = _places(remaining, terms)
        else:
            raise InputError(
                f"groups: {self.text!r} in {self.groups!r} is not a group: expected numbers (0-3), "
                "names (mm+relu) or lines (L12-18)"
            )
        if not selected:
            names = ", ".join(dict.fromkeys(short_name(op.name) for op in live))
            raise InputError(f"groups: nothing is left that {self.text!r} names; ops: {names}")
        return selected

    def _numbered(
        self, terms: Sequence[str], remaining: Sequence[Part], live: Sequence[TracedOp]
    ) -> tuple[int, ...]:
        numbers = {n for term in terms for n in _range(_NUMBERS, term)}
        beyond = [n for n in sorted(numbers) if n >= len(live)]
        if beyond:
            raise InputError(f"groups: no op {beyond[0]}: the last one is {len(live) - 1}")
        positions = tuple(p.positions[0] for p in remaining if p.positions[0] in numbers)
        if not positions:
            raise InputError(f"groups: {self.text!r} names no op that is left")
        return positions


def _range(form: re.Pattern[str], term: str) -> range:
    match = form.fullmatch(term)
    assert match is not None
    first = int(match[1])
    return range(first, int(match[2] or first) + 1)


def _line_number(line: str) -> int | None:
    number = line.rpartition(":")[2]
    return int(number) if number.isdecimal() else None


def _runs(parts: Sequence[Part], accepts: Callable[[Part], bool]) -> list[tuple[int, ...]]:
    """Return the runs of accepted neighbours."""
    runs: list[list[int]] = [[]]
    for part in parts:
        if accepts(part):
            runs[-1].append(part.positions[0])
        elif runs[-1]:
            runs.append([])
    return [tuple(run) for run in runs if run]


def _places(parts: Sequence[Part], names: Sequence[str]) -> list[tuple[int, ...]]:
    """Return the runs of neighbours with these names."""
    runs, start = [], 0
    while start + len(names) <= len(parts):
        here = parts[start : start + len(names)]
        if all(_is_called(part.names[0], name) for part, name in zip(here, names)):
            runs.append(tuple(part.positions[0] for part in here))
            start += len(names)
        else:
            start += 1
    return runs


def _is_called(op: str, name: str) -> bool:
    return name == op or short_name(op) == short_name(name) or name in operator(op).called
