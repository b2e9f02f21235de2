"""A kernel's instructions as basic blocks, loops, and what its addresses and branches depend on.

A front end reads its language into `Instruction` records and splits them into blocks;
`control_flow_of` finds the rest.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from solkit.analysis.common.access_modifiers import AccessModifiers


@dataclass(frozen=True)
class MemoryUse:
    """Use of memory by an instruction, as its text says.

    Attributes:
        kind, path: as in `solkit.core.Access`; a copy into shared memory is an ``"async"`` load.
        width_bytes: at one lane's address.
        element_bytes: of an element.
        registers: that the address in global memory is computed from.
        is_global: whether that may be in global memory.
        lanes: of a warp, from the first on, that give an address.
        modifiers: of the instruction that makes it.
    """

    kind: str
    width_bytes: int
    registers: tuple[str, ...]
    path: str = "global"
    element_bytes: int = 4
    is_global: bool = True
    lanes: int = 32
    modifiers: AccessModifiers = field(default_factory=AccessModifiers)


@dataclass(frozen=True, eq=False)
class Instruction:
    """One instruction of a thread.

    Attributes:
        source: the front end's own record of it.
        line: ``file:line`` in the user's source; empty if unknown.
        written: registers that it writes, its result first.
        read: registers that it reads, its guard among them.
        guard: the register that it runs under, after ``!`` if that must be false; empty without.
        memory: its access of memory.
        loads: ``"memory"`` or ``"parameter"`` if its result is read from there.
        pointers: that it takes from the kernel: parameters, and variables in global memory.
        is_computed: whether its result can be known if its operands are.
        deciding: registers that must be known besides those of addresses: conditions of branches
            and of accesses.
    """

    source: Any
    line: str = ""
    written: tuple[str, ...] = ()
    read: tuple[str, ...] = ()
    guard: str = ""
    memory: MemoryUse | None = None
    loads: str = ""
    pointers: tuple[str, ...] = ()
    is_computed: bool = True
    deciding: tuple[str, ...] = ()

    @property
    def condition(self) -> str:
        """The register of its guard; empty without."""
        return self.guard.lstrip("!")


@dataclass(frozen=True)
class BasicBlock:
    """Instructions that run in sequence.

    Attributes:
        number: its place in the code.
        instructions: the last may be a branch or return.
        targets: the branch's target, then the block that follows.
        loops: numbers of the loops around it, the outermost first.
    """

    number: int
    instructions: tuple[Instruction, ...]
    targets: tuple[int, ...]
    loops: tuple[int, ...]


@dataclass(frozen=True)
class Loop:
    """A loop, from its header to the last branch back to it.

    Attributes:
        number: in the order of headers.
        header, last: numbers of blocks.
        carried: relevant registers that one iteration passes to the next.
    """

    number: int
    header: int
    last: int
    carried: tuple[str, ...]

    def holds(self, block: int) -> bool:
        """Tell whether a block is inside of it."""
        return self.header <= block <= self.last

    def is_left_by(self, block: BasicBlock) -> bool:
        """Tell whether a block may lead out of it."""
        return any(not self.holds(to) for to in block.targets)


@dataclass(frozen=True)
class ControlFlow:
    """The code of a kernel.

    Attributes:
        blocks: in the order of the code.
        loops: in the order of their headers.
        relevant: registers that an address or a branch depends on.
    """

    blocks: tuple[BasicBlock, ...]
    loops: tuple[Loop, ...]
    relevant: frozenset[str]

    @property
    def instructions(self) -> Iterator[Instruction]:
        """All of them."""
        for block in self.blocks:
            yield from block.instructions

    def inside(self, loop: Loop) -> Sequence[BasicBlock]:
        """Return the blocks of a loop."""
        return self.blocks[loop.header : loop.last + 1]

    def phase(self, block: BasicBlock) -> int:
        """Return the number of the outermost loop around it, or of the gap between loops."""
        outer = [loop for loop in self.loops if not self.blocks[loop.header].loops[:-1]]
        before = sum(loop.header <= block.number for loop in outer)
        return 2 * before - 1 if block.loops else 2 * before

    @cached_property
    def definitions(self) -> Mapping[str, int]:
        """Number of instructions that write each register."""
        counts: dict[str, int] = {}
        for instruction in self.instructions:
            for name in instruction.written:
                counts[name] = counts.get(name, 0) + 1
        return counts

    @cached_property
    def after(self) -> tuple[frozenset[int], ...]:
        """Blocks on every path from each block to the end."""
        return tuple(_post_dominators(self.blocks))

    def depends_on(self, start: Iterable[str], loads: bool = True) -> frozenset[str]:
        """Return all registers that some registers are computed from, including themselves.

        Args:
            start: those registers.
            loads: whether a loaded value depends on its address.
        """
        return _transitive_sources(start, self._sources[loads])

    @cached_property
    def _sources(self) -> tuple[Mapping[str, frozenset[str]], Mapping[str, frozenset[str]]]:
        computed = (instruction for instruction in self.instructions if not instruction.loads)
        return _source_registers(computed), _source_registers(self.instructions)


def control_flow_of(parts: Sequence[tuple[Sequence[Instruction], tuple[int, ...]]]) -> ControlFlow:
    """Find the loops of some code, and the registers that matter.

    Args:
        parts: instructions of each basic block, in the order of the code, and numbers of the blocks
            that it may lead to: the target of a branch first. The end is past the last block.
    """
    ranges = _loop_ranges(parts)
    relevant = _relevant([instruction for part, _ in parts for instruction in part])
    blocks = tuple(
        BasicBlock(
            n, tuple(part), targets, tuple(i for i, (a, b) in enumerate(ranges) if a <= n <= b)
        )
        for n, (part, targets) in enumerate(parts)
    )
    live = _live_registers(blocks)
    loops = tuple(
        Loop(i, first, last, _carried_registers(blocks[first : last + 1], live[first] & relevant))
        for i, (first, last) in enumerate(ranges)
    )
    return ControlFlow(blocks, loops, relevant)


def _loop_ranges(
    parts: Sequence[tuple[Sequence[Instruction], tuple[int, ...]]],
) -> list[tuple[int, int]]:
    ends: dict[int, int] = {}
    for n, (_, targets) in enumerate(parts):
        for to in targets:
            if to <= n:
                ends[to] = max(n, ends.get(to, n))
    return sorted(ends.items())


def _post_dominators(blocks: Sequence[BasicBlock]) -> Iterator[frozenset[int]]:
    end = len(blocks)
    everything = (1 << (end + 1)) - 1
    after = [everything] * end + [1 << end]
    changed = True
    while changed:
        changed = False
        for block in reversed(blocks):
            common = everything
            for to in block.targets:
                common &= after[to]
            new = common | 1 << block.number
            changed |= new != after[block.number]
            after[block.number] = new
    for block in blocks:
        mask = after[block.number] & ~(1 << block.number)
        yield frozenset(n for n in range(end + 1) if mask >> n & 1)


def _relevant(instructions: Sequence[Instruction]) -> frozenset[str]:
    start: set[str] = set()
    for instruction in instructions:
        start.update(instruction.deciding)
        if instruction.memory is not None:
            start.update(instruction.memory.registers)
    computed = (instruction for instruction in instructions if instruction.is_computed)
    return _transitive_sources(start, _source_registers(computed))


def _source_registers(instructions: Iterable[Instruction]) -> dict[str, frozenset[str]]:
    sources: dict[str, set[str]] = {}
    for instruction in instructions:
        for name in instruction.written:
            sources.setdefault(name, set()).update(instruction.read)
    return {name: frozenset(read) for name, read in sources.items()}


def _transitive_sources(
    start: Iterable[str], sources: Mapping[str, frozenset[str]]
) -> frozenset[str]:
    closure: set[str] = set()
    waiting = list(start)
    while waiting:
        name = waiting.pop()
        if name not in closure:
            closure.add(name)
            waiting.extend(sources.get(name, ()))
    return frozenset(closure)


def _live_registers(blocks: Sequence[BasicBlock]) -> list[frozenset[str]]:
    """List each block's registers that may be read after its start before a write."""
    end = len(blocks)
    own = [_reads_and_writes(block) for block in blocks]
    live: list[frozenset[str]] = [frozenset()] * (end + 1)
    changed = True
    while changed:
        changed = False
        for block in reversed(blocks):
            read, written = own[block.number]
            out = frozenset().union(*(live[to] for to in block.targets))
            new = read | (out - written)
            changed |= new != live[block.number]
            live[block.number] = new
    return live


def _reads_and_writes(block: BasicBlock) -> tuple[frozenset[str], frozenset[str]]:
    """Return what a block reads before writing it, and what it certainly writes."""
    reads: set[str] = set()
    writes: set[str] = set()
    for instruction in block.instructions:
        reads |= set(instruction.read) - writes
        if not instruction.guard:
            writes |= set(instruction.written)
        else:
            reads |= set(instruction.written) - writes
    return frozenset(reads), frozenset(writes)


def _carried_registers(blocks: Sequence[BasicBlock], live: frozenset[str]) -> tuple[str, ...]:
    written = {
        name
        for block in blocks
        for instruction in block.instructions
        for name in instruction.written
    }
    return tuple(sorted(written & live))
