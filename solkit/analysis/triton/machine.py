"""Estimates of a kernel's machine code, from its IR: instructions by kind, and their pace.

Used at the lowered depth. Each operation of the IR becomes so many instructions of a warp, in steps
(`Step`). One warp goes through the steps as `solkit.analysis.common.warp_throughput` goes
through machine code: in order, waiting for operands, with the same cycles. The result has the
form of a mix that
was read from machine code, so `solkit.roofline.kernel.model` treats both alike.

Constants are counts of what ptxas makes of one operation for sm_90, seen in compiled kernels of
`bench/depths.py`'s development half; none is fitted to measured times.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

from solkit.adapters.triton_ir import Block, Function, Operation
from solkit.analysis.common.instruction_kinds import KINDS
from solkit.analysis.common.warp_throughput import COSTS, Spent, Warp
from solkit.analysis.triton.exchanges import Step
from solkit.analysis.triton.relevance import ACCESSES
from solkit.analysis.triton.steps import steps_of
from solkit.core import InstructionCount, InstructionMix, Pace

_START = {"move": 6, "constant_load": 8, "branch": 3}
"""Instructions of any kernel: the stack pointer, arguments, indices of the block, the end."""
_START_CYCLES = 60.0
_STALLS = 1.2
"""Cycles of machine code over those of whole steps, which overlap more; a median."""
_MOVES = 0.1
"""Moves between registers and into them for each other instruction."""
_LOOP = 4
"""Instructions of an iteration: count, compare, branch, and a move."""
_UNROLLED, _UNROLLED_SIZE, _UNROLLED_LOADS = 4, 64, 4
"""ptxas unrolls loops without barriers by four, if they have few instructions and few loads."""
_WHOLE_SIZE = 700
"""Instructions up to which a loop of constant length becomes straight code."""
_WAITS = ("ttg.async_wait", "ttng.wait_barrier", "ttng.warp_group_dot_wait")
_LOOPS = ("scf.for", "scf.while")


class _ValueWarp(Warp):
    """A warp that goes through operations: what it waits for is the first element of a value."""

    def run(
        self, operation: Operation, steps: Sequence[Step], depth: int | None, copies: int
    ) -> None:
        """Run one operation, in copies side by side: each of its steps waits for the one before."""
        arrivals = [self.there[operand] for operand in operation.operands if operand in self.there]
        ready, memory = max((*arrivals, *self._awaited(operation)), default=(0.0, ""))
        for step in steps:
            start = max(self.now, ready)
            every, latency = COSTS.get(step.kind, (1.0, 4.0))
            waited = max(start - self.now, 0.0)
            issue = step.count * every * copies
            if depth is not None:
                self.count(depth, waited, memory, issue)
            self.now = start + issue
            latency = step.cycles or latency
            ready = start + max(latency, step.serial * latency, step.whole * issue)
            memory = "memory" if step.kind in ("global_load", "global_atomic") else ""
        if operation.name == "ttg.async_commit_group":
            self.commit_copies(self.now)
        for name in operation.results if steps else ():
            self.there[name] = ready, memory
        for name in operation.results if not steps and arrivals else ():
            self.there[name] = max(arrivals)
        if operation.name == "ttng.warp_group_dot":
            self.products = ready
            for name in operation.results:
                self.there.pop(name, None)

    def _awaited(self, operation: Operation) -> Iterator[tuple[float, str]]:
        pending = operation.attribute("num") or operation.attribute("pendings") or 0
        if operation.name == "ttg.async_wait":
            done = self.copies[: max(len(self.copies) - pending, 0)]
            if done:
                yield max(done), "memory"
        elif operation.name == "ttng.warp_group_dot_wait" and not pending:
            yield self.products, ""


Row = tuple[str, str, int, int]


class _Code:
    """The code of a kernel: counts by kind, opcode, depth and width."""

    def __init__(self, function: Function) -> None:
        self.steps = steps_of(function)
        self.warp = _ValueWarp()
        self.counts: defaultdict[Row, float] = defaultdict(float)
        self.loops = 0
        self.numbers = self.steps.constants

    def add(
        self, depth: int, cycles: float, counts_by_kind: Mapping[str, float], width: int = 0
    ) -> None:
        """Spend cycles on instructions by kind that no operation of the IR stands for."""
        self.warp.spent.setdefault(depth, Spent()).cycles += cycles
        for kind, count in counts_by_kind.items():
            self.counts[kind, "", depth, width] += count

    def straight(self, blocks: Sequence[Block], depth: int, times: int, counts: bool) -> None:
        """Code at one depth, of which there are so many copies side by side."""
        for block in blocks:
            for operation in _scheduled(block.operations):
                if operation.name in _LOOPS:
                    self._loop(operation, depth, times, counts)
                    continue
                steps = self.steps.of(operation)
                self.warp.run(operation, steps, depth if counts else None, times)
                if counts:
                    for step in steps:
                        self.counts[step.kind, step.opcode, depth, step.width] += step.count * times
                if operation.name not in ("tt.reduce", "tt.scan"):
                    self.straight(operation.blocks, depth, times, counts)

    def _loop(self, loop: Operation, depth: int, times: int, counts: bool) -> None:
        size = self._size(loop)
        rounds = self._rounds(loop)
        if rounds is not None and rounds * size <= _WHOLE_SIZE:
            self._copies(loop, depth, times, rounds, counts)
            return
        self.loops += counts
        copies = _UNROLLED if self._is_unrolled(loop, size) else 1
        for again in (False, True):
            self._copies(loop, depth + 1, times, copies, counts and again)
        if counts:
            self.add(depth + 1, _LOOP * COSTS["int32"][0], {"int32": _LOOP * times})
        for name, source in zip(loop.results, _yielded_names(loop), strict=False):
            if source in self.warp.there:
                self.warp.there[name] = self.warp.there[source]

    def _copies(self, loop: Operation, depth: int, times: int, copies: int, counts: bool) -> None:
        """Side by side, or one after the other if they store."""
        inner = [operation for block in loop.blocks for operation in block.walk()]
        apart = copies if any(operation.name == "tt.store" for operation in inner) else 1
        for _ in range(apart):
            self.straight(loop.blocks, depth, times * copies // apart, counts)

    def _size(self, loop: Operation) -> float:
        """Count instructions of one iteration."""
        body = (operation for block in loop.blocks for operation in block.walk())
        return _LOOP + sum(step.count for operation in body for step in self.steps.of(operation))

    def _rounds(self, loop: Operation) -> int | None:
        """Return the rounds of a loop of constant length."""
        if loop.name != "scf.for":
            return None
        first, end, step = (self.numbers.get(name) for name in loop.loop.bounds)
        if first is None or end is None or not step:
            return None
        return max(math.ceil((end - first) / step), 0)

    def _is_unrolled(self, loop: Operation, size: float) -> bool:
        inner = [operation for block in loop.blocks for operation in block.walk()]
        plain = not any(
            operation.name
            in (*_LOOPS, *_WAITS, "scf.if", "tt.reduce", "tt.scan", "ttg.convert_layout")
            or operation.name.startswith(("ttg.", "ttng.", "tt.atomic"))
            for operation in inner
        )
        loads = sum(
            s.count
            for operation in inner
            for s in self.steps.of(operation)
            if s.kind == "global_load"
        )
        small = size <= _UNROLLED_SIZE and loads <= _UNROLLED_LOADS
        return loop.name == "scf.for" and plain and small


def _yielded_names(loop: Operation) -> Sequence[str]:
    return loop.blocks[-1].operations[-1].operands if loop.blocks[-1].operations else ()


def _scheduled(operations: Sequence[Operation]) -> list[Operation]:
    """Return operations in the order of the loads that they depend on: ptxas moves loads up.

    Not across barriers, loops and branches.
    """
    scheduled: list[Operation] = []
    run: list[Operation] = []
    for operation in operations:
        if (operation.blocks and operation.name not in ("tt.reduce", "tt.scan")) or _is_barrier(
            operation
        ):
            scheduled += _by_level(run)
            scheduled.append(operation)
            run = []
        else:
            run.append(operation)
    return scheduled + _by_level(run)


def _is_barrier(operation: Operation) -> bool:
    """Tell whether loads do not move across; a store may write what they read."""
    return operation.name.startswith(
        ("tt.atomic", "tt.store", "gpu.barrier", "ttng.", "ttg.async", "ttg.local")
    )


def _by_level(operations: Sequence[Operation]) -> list[Operation]:
    levels: dict[str, int] = {}
    keyed = []
    for operation in operations:
        level = max((levels.get(name, 0) for name in operation.operands), default=0)
        keyed.append((level, operation))
        for name in operation.results:
            levels[name] = level + (operation.name in ACCESSES)
    return [operation for _, operation in sorted(keyed, key=lambda pair: pair[0])]


def estimated_mix(function: Function, spills: int = 0) -> InstructionMix:
    """Return the instruction mix of a kernel that was not compiled.

    Args:
        function: the kernel.
        spills: words per thread, each stored and loaded once an iteration.
    """
    code = _Code(function)
    code.straight(function.blocks, 0, 1, counts=True)
    code.add(0, _START_CYCLES, _START)
    code.add(min(code.loops, 1), 0.0, dict.fromkeys(("local_load", "local_store"), spills), 4)
    for depth in range(1 + max(row[2] for row in code.counts)):
        moves = _MOVES * sum(n for row, n in code.counts.items() if row[2] == depth)
        code.add(depth, moves * COSTS["move"][0], {"move": moves})
    rows = sorted(code.counts, key=lambda row: (KINDS.index(row[0]), *row[1:]))
    whole = {row: round(code.counts[row]) for row in rows}
    counts = tuple(
        InstructionCount(kind, opcode, depth, count, 0, width, 0)
        for (kind, opcode, depth, width), count in whole.items()
        if count
    )
    paces = tuple(
        Pace(depth, round(_STALLS * spent.cycles, 1), round(spent.trips, 3), 0.0)
        for depth, spent in sorted(code.warp.spent.items())
    )
    return InstructionMix(counts, code.loops, {}, paces)
