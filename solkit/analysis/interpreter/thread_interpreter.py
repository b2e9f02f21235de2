"""Follow the threads of some blocks through a kernel's instructions, for what they access.

All threads of all followed blocks go together: those earliest in the code take the next step, so
threads that diverged meet again where structured code does. Integers and predicates are computed as
on the GPU. Floats are not, since addresses hardly ever depend on them. Loaded indices are known if
their tensor's contents are. Unknown values are guessed, and a note says so.

Every value is an array of shape [blocks, threads], of size 1 along an axis if all agree, or
``None`` if unknown. Loops with equal iterations do not run to their end: see
`solkit.analysis.interpreter.loop_extrapolation`. What instructions compute and access, their
language says: see `solkit.analysis.interpreter.front_end`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from solkit.analysis.common.out_of_bounds import outside_bytes
from solkit.analysis.common.ptx_numbers import as_bits
from solkit.analysis.common.regions import ADDRESS_BITS
from solkit.analysis.interpreter.control_flow import BasicBlock, Instruction
from solkit.analysis.interpreter.counters import Counters
from solkit.analysis.interpreter.front_end import (
    UNFOLLOWED,
    WINDOWS,
    AccessStep,
    Bulk,
    FrontEnd,
    Operand,
    ValueStep,
)
from solkit.analysis.interpreter.loop_extrapolation import Comparison, LoopExtrapolator
from solkit.analysis.interpreter.storages import IN_ORDER, OFFSET
from solkit.analysis.interpreter.thread_groups import AccessSink, Active, Grid
from solkit.analysis.interpreter.values import Array, Value

_WARP = 32
_BEFORE = 1 << (ADDRESS_BITS - 1)
"""Bytes in front of a storage that count as its own."""
_MOST_WORK = 1_500_000.0
"""Work in microseconds, as estimated by `_BLOCK` and the like: some seconds at most."""
_HURRY = ((1.0, 3), (0.3, 6))
"""Shares of that, after which a loop gets so few iterations to repeat; see `arrive`."""
_GIVEN_UP = 4.0
_BLOCK, _INSTRUCTION, _ACCESS = (60.0, 0.02), (6.0, 0.006), (70.0, 0.1)
"""Time of one, and additional time per thread; measured on one core."""


@dataclass(frozen=True, eq=False)
class _Step:
    """An instruction that matters, prepared.

    Attributes:
        instruction: of the code.
        results: relevant registers that it writes.
        keeps: whether a result may meet an older value of its register.
        unseen: what cannot be followed of it.
        value, access: what it computes or accesses.
    """

    instruction: Instruction
    results: tuple[str, ...]
    keeps: bool
    unseen: str
    value: ValueStep
    access: AccessStep | None


@dataclass
class ThreadInterpreter:
    """Some blocks of a launch, followed together.

    Args:
        front_end: the kernel.
        grid: of the launch.
        numbers: of the blocks to follow, x fastest.
        threads: of each block to follow.
        counters: counts by block; shortened loops extrapolate them.
        sink: notified of accesses.
        line_bytes: as for `LoopExtrapolator`.
        guessed: registers with values that stand for unknown ones. They give addresses; comparisons
            with them are unknown.
        outside: how far instructions reach beyond the ends of storages, in bytes, as far as no
            guess is wrong.
    """

    front_end: FrontEnd
    grid: Grid
    numbers: Array
    threads: Array
    counters: Counters
    sink: AccessSink
    line_bytes: int = 128
    guesses: dict[str, None] = field(default_factory=dict)
    registers: dict[str, Value] = field(default_factory=dict)
    guessed: set[str] = field(default_factory=set)
    outside: dict[Instruction, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        x, y, _ = self.grid.blocks
        numbers = self.numbers[:, None]
        self.block_at = (numbers % x, numbers // x % y, numbers // (x * y))
        x, y, _ = self.grid.threads
        threads = self.threads[None, :]
        self.thread_at = (threads % x, threads // x % y, threads // (x * y))
        warps = self.threads // _WARP
        self.warps_of = np.flatnonzero(np.r_[True, warps[1:] != warps[:-1]])
        self.flow = self.front_end.flow
        self.storages = self.front_end.storages
        self.sizes = self.storages.sizes
        self.is_sure = True  # whether all active threads make the access at hand
        self.work = 0.0
        self.loops = [
            LoopExtrapolator(loop, self.front_end, self.counters, self.line_bytes)
            for loop in self.flow.loops
        ]
        self.code = [
            [step for i in block.instructions if (step := self._prepared(i, block)) is not None]
            for block in self.flow.blocks
        ]

    # ---------------------------------------------------------------------------- control flow

    def run(self) -> None:
        """Follow them from entry to return."""
        everyone = np.ones((len(self.numbers), len(self.threads)), bool)
        waiting = {0: Active(everyone, self.warps_of)}
        end = len(self.flow.blocks)
        with np.errstate(all="ignore"):
            while waiting and self.work < _GIVEN_UP * _MOST_WORK:
                number = min(waiting)
                active = waiting.pop(number)
                if number < end:
                    self._run_block(self.flow.blocks[number], active, waiting)
        if waiting:
            self.guess("after so many steps the rest of the kernel was not followed")

    def _run_block(self, block: BasicBlock, active: Active, waiting: dict[int, Active]) -> None:
        whole = not waiting
        for n in block.loops:
            if self.loops[n].loop.header == block.number:
                self._arrive(self.loops[n], active)
        size = active.mask.size
        self.work += _BLOCK[0] + _BLOCK[1] * size
        for step in self.code[block.number]:
            counted = step.access is not None and not step.unseen
            fixed, by_thread = _ACCESS if counted else _INSTRUCTION
            self.work += fixed + by_thread * size
            self._run_step(step, block, active, whole)
        self.sink.block_ends(block, active)
        for to, who in self._targets(block, active):
            for extrapolator in self.loops:
                loop = extrapolator.loop
                if to == loop.header and not loop.holds(block.number):
                    extrapolator.entered()
            others = waiting.get(to)
            waiting[to] = who if others is None else Active(others.mask | who.mask, self.warps_of)

    def _targets(self, block: BasicBlock, active: Active) -> list[tuple[int, Active]]:
        last = block.instructions[-1]
        if len(block.targets) == 1:
            return [(block.targets[0], active)]
        condition = None if last.condition in self.guessed else self._guard(last)
        if condition is None:
            return [(self._guessed_target(block), active)]
        if condition.size == 1:
            return [(block.targets[0 if condition.flat[0] else 1], active)]
        sides = (active.where(condition != 0), active.where(condition == 0))
        return [(to, who) for to, who in zip(block.targets, sides) if who.mask.any()]

    def _guessed_target(self, block: BasicBlock) -> int:
        """Guess the way of an open branch: into what it guards, or out of the loop that it ends."""
        what = "a branch that depends on data is assumed to do the work that it guards"
        self.guess(what, *block.instructions[::-1])
        for n in reversed(block.loops):
            loop = self.flow.loops[n]
            inside = [loop.holds(to) for to in block.targets]
            if inside != [True, True]:
                ends = [b for b in self.flow.inside(loop) if loop.is_left_by(b)]
                stays = len(ends) > 1 and block.targets[inside.index(True)] > block.number
                return block.targets[inside.index(stays)]
        taken, falls = block.targets
        return taken if falls in self.flow.after[block.number] else falls

    def _arrive(self, extrapolator: LoopExtrapolator, active: Active) -> None:
        """At a loop's header: skip iterations if they repeat."""
        patience = next((n for share, n in _HURRY if self.work > share * _MOST_WORK), None)
        sentence = extrapolator.arrive(active.mask, self.registers, patience)
        if sentence:
            header = self.flow.blocks[extrapolator.loop.header]
            self.guess(sentence, *header.instructions[::-1])

    def guess(self, what: str, *instructions: Instruction) -> None:
        """Note what is assumed, at the first of some instructions whose line is known."""
        line = next((i.line for i in instructions if i.line), "")
        self.guesses.setdefault(f"{line}: {what}." if line else f"{what}.")

    # ---------------------------------------------------------------------------- instructions

    def _prepared(self, instruction: Instruction, block: BasicBlock) -> _Step | None:
        """Prepare an instruction; ``None`` if it has no access, and no address depends on it."""
        unseen = self.front_end.unseen(instruction)
        results = tuple(name for name in instruction.written if name in self.flow.relevant)
        if instruction.memory is None and not unseen and not results:
            return None
        definitions = self.flow.definitions
        keeps = bool(block.loops) or any(definitions[name] > 1 for name in results)
        value, access = ValueStep(), None
        if instruction.memory is not None:
            access = self.front_end.access_step(instruction, self)
        elif results:
            value = self.front_end.value_step(instruction, self)
        return _Step(instruction, results, keeps, unseen, value, access)

    def value(self, operand: Operand) -> Value:
        """Return the present value of an operand."""
        return self.registers.get(operand) if isinstance(operand, str) else operand

    def _guard(self, instruction: Instruction) -> Value:
        value = self.registers.get(instruction.condition)
        if value is None:
            return None
        return 1 - value if instruction.guard.startswith("!") else value

    def _run_step(self, step: _Step, block: BasicBlock, active: Active, whole: bool) -> None:
        instruction = step.instruction
        self.is_sure = True
        if step.access is not None and instruction.guard:
            condition = self._guard(instruction)
            self.is_sure = condition is not None and instruction.condition not in self.guessed
            if condition is not None and self.is_sure:
                active, whole = active.where(condition != 0), False
        if step.unseen and active.mask.any():
            self.guess(step.unseen, instruction)
        if step.access is not None:
            loaded = self._accessed(step, step.access, block, active)
            self._write(step, self._results(step, loaded), active, whole)
        elif step.results and not step.unseen:
            self._inherit(step)
            self._compute(step, block, active, whole)

    def _inherit(self, step: _Step) -> None:
        """Note results of guessed operands; of two joined flags one that is known decides."""
        if not self.guessed:
            return
        names = [operand for operand in step.value.operands if isinstance(operand, str)]
        taken = [name for name in names if name in self.guessed]
        if taken and not (step.value.joins_flags and len(taken) < len(names)):
            self.guessed.update(step.results)

    def _compute(self, step: _Step, block: BasicBlock, active: Active, whole: bool) -> None:
        computed = self._computed(step, block, active)
        values = self._results(step, computed)
        if step.instruction.guard:
            condition = self._guard(step.instruction)
            olds = map(self.registers.get, step.results)
            values = [
                np.where(condition != 0, new, old)
                if condition is not None and new is not None and old is not None
                else None
                for new, old in zip(values, olds)
            ]
        self._write(step, values, active, whole)

    def _results(self, step: _Step, values: Value | tuple[Value, ...]) -> list[Value]:
        """Return the value of each relevant result."""
        if isinstance(values, tuple):
            return [values[step.instruction.written.index(name)] for name in step.results]
        return [values, *[None] * (len(step.results) - 1)]

    def _write(self, step: _Step, values: Sequence[Value], active: Active, whole: bool) -> None:
        """Write results where threads are active; those that are not computed become unknown."""
        for new, name in zip(values, step.results):
            if not whole and step.keeps and name in self.registers:
                old = self.registers[name]
                if old is None and self.flow.definitions[name] > 1:
                    new = None  # not known in the threads that do not take part
                elif new is not None and old is not None and old is not new:
                    new = np.where(active.mask, new, old)
            self.registers[name] = new

    def _computed(
        self, step: _Step, block: BasicBlock, active: Active
    ) -> Value | tuple[Value, ...]:
        how = step.value
        if how.compute is None:
            return None
        values = [self.value(operand) for operand in how.operands]
        if self.guessed and how.joins_flags:  # an unknown flag is assumed to be set
            kept = [v for o, v in zip(how.operands, values) if o not in self.guessed]
            if len(kept) == 1:
                return kept[0]
        operands = [value for value in values if value is not None]
        if len(operands) < len(values):
            return how.compute(*values) if how.takes_unknown else None
        for n in block.loops:
            self.loops[n].observe(step.instruction, operands, active.mask)
            if how.comparison:
                a, b = how.compared(*operands[:2])
                comparison = Comparison(step.instruction, how.comparison, a, b, active.mask)
                self.loops[n].compared(comparison)
        return how.compute(*operands)

    # ---------------------------------------------------------------------------------- memory

    def _accessed(
        self, step: _Step, access: AccessStep, block: BasicBlock, active: Active
    ) -> Value | tuple[Value, ...]:
        """Report an access; returns what it loads, if known."""
        if access.space == "parameter":
            return access.parameter(self)
        if access.space in UNFOLLOWED or not active.mask.any():
            return None
        instruction = step.instruction
        if access.bulk is not None:
            self._copied(instruction, access.bulk(self), block, active)
            return None
        addresses = self._address(access.address, access.offset)
        if access.is_copy:
            to = self._address(access.copy_address, access.copy_offset)
            self.sink.access(instruction, "shared", to, active)
        space = access.space or _window_of_addresses(addresses)
        if space in UNFOLLOWED:
            self.guess(UNFOLLOWED[space], instruction)
            return None
        if space == "global":
            addresses = self._global_addresses(instruction, addresses, block, active)
        elif addresses is not None:
            addresses = addresses & OFFSET
        if access.rows is not None and addresses is not None:
            for row in access.rows(self, addresses):
                self.sink.access(instruction, space, row, active)
            return None
        self.sink.access(instruction, space, addresses, active)
        if addresses is None:
            return None
        if space == "global" and self.is_sure and not access.is_partial:
            self._note_outside(instruction, addresses, active)
        is_loaded = step.results and access.loaded_bits
        return self._loaded(instruction, addresses, access.loaded_bits) if is_loaded else None

    def _copied(
        self, instruction: Instruction, bulk: Bulk | None, block: BasicBlock, active: Active
    ) -> None:
        """Report the bulk copies of threads, of a warp's equal ones one.

        They are instructions of the uniform datapath (UTMALDG, UTMASTG): a warp makes one once,
        though CuTe DSL lets all of its threads store a tile.
        """
        corner = None
        if bulk is not None:
            corner = self._global_addresses(instruction, bulk.corner, block, active)
        if bulk is None or corner is None:
            self.guess("a bulk copy (TMA) whose tensor is not known is not counted", instruction)
            return
        alone = np.zeros(1, np.int64)  # a thread's pieces are one request
        corners = np.broadcast_to(corner, active.mask.shape)
        distinct: dict[tuple[int, bytes], int] = {}
        for thread in np.flatnonzero(active.mask.any(0)):
            who = corners[:, thread].tobytes() + active.mask[:, thread].tobytes()
            distinct.setdefault((int(self.threads[thread]) // _WARP, who), int(thread))
        for thread in distinct.values():
            addresses, there = bulk.pieces(thread)
            copying = np.broadcast_to(
                there & active.mask[:, thread : thread + 1], (len(active.mask), there.shape[1])
            )
            self.sink.access(instruction, "global", addresses, Active(copying, alone))

    def _address(self, operand: Operand, offset: int) -> Value:
        base = self.value(operand)
        return None if base is None else base + offset

    def _global_addresses(
        self, instruction: Instruction, addresses: Value, block: BasicBlock, active: Active
    ) -> Value:
        """Return addresses that are in a storage, for the loops around them too."""
        if addresses is not None:
            last = int(np.broadcast_to(addresses, active.mask.shape)[active.mask].max())
            if not 0 < (last + _BEFORE) >> ADDRESS_BITS <= len(self.storages):
                addresses = None  # a pointer that was loaded from memory
        if addresses is None:
            self.guess("places that depend on data are spread over the storage", instruction)
            return None
        for n in block.loops:
            self.loops[n].accessed(instruction, addresses)
        return addresses

    def _note_outside(self, instruction: Instruction, addresses: Array, active: Active) -> None:
        """Note how far an access leaves its storage."""
        assert instruction.memory is not None
        low = np.broadcast_to(addresses, active.mask.shape)[active.mask]
        high = low + instruction.memory.width_bytes
        farthest = int(outside_bytes(low, high, self.sizes).max())
        if farthest > self.outside.get(instruction, 0):
            self.outside[instruction] = farthest

    def _loaded(self, instruction: Instruction, addresses: Array, bits: int) -> Value:
        """Return integers from memory if the contents are known, else guesses in order."""
        place = int(addresses.flat[0] >> ADDRESS_BITS)
        loaded = self.storages.integers_at(place, addresses, bits)
        if loaded is None:
            return None
        integers, is_known = loaded
        if is_known:
            return as_bits(integers, bits, signed=False)
        self.guess(IN_ORDER, instruction)
        self.guessed.update(instruction.written)
        return integers


def _window_of_addresses(addresses: Value) -> str:
    """Return the memory that a generic address is in."""
    number = 0 if addresses is None else int(addresses.flat[0]) >> ADDRESS_BITS
    return next((space for space, window in WINDOWS.items() if window == number), "global")
