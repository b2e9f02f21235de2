"""Pace of one warp alone through a kernel's machine code.

A warp issues its instructions in order, and each waits until its operands are there. So the code
says how many loads are on their way before the first is needed, and how long dependences take.
`paces_of` sends one warp through the code, in loops twice, and counts the second round.

Sources of the cycles: Jia et al., "Dissecting the NVIDIA Volta GPU architecture via
microbenchmarking" (2018): arithmetic 4, predicates 12, shuffles 23, the special function unit 23.
Luo et al., "Benchmarking and Dissecting the Nvidia Hopper GPU Architecture via Microbenchmarking"
(2024): shared memory 29, L1 41, products 33, ``wgmma`` 64 x N in N / 2. CUDA C++ Programming Guide,
"Throughput of Native Arithmetic Instructions": how often a pipe of an SM's quarter takes a warp.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field

from solkit.adapters.sass import Block, Code, Instruction
from solkit.analysis.common.instruction_kinds import instruction_kind
from solkit.analysis.common.warp_roles import roles_of
from solkit.core import Pace

MEMORY_CYCLES = 600.0
"""Global memory's latency while a warp goes through the code: between those of L2 and DRAM."""

_LOCAL_CYCLES = 41.0  # of L1
_PREDICATE_CYCLES = 12.0
_GROUP_CYCLES = 60.0  # before a wgmma's first result

COSTS: dict[str, tuple[float, float]] = {
    # by kind: cycles until the warp may issue again, and until the result is there
    "fp32": (1, 4),
    "fp16": (1, 5),
    "fp64": (2, 8),
    "int32": (2, 4),
    "move": (2, 4),
    "convert": (2, 8),
    "sfu": (8, 23),
    "warp": (2, 23),
    "uniform": (2, 11),
    "constant_load": (2, 30),
    "shared_load": (2, 29),
    "shared_store": (2, 4),
    "shared_atomic": (4, 60),
    "local_load": (4, _LOCAL_CYCLES),
    "local_store": (4, 4),
    "global_load": (4, MEMORY_CYCLES),
    "global_store": (4, 4),
    "global_atomic": (4, MEMORY_CYCLES),
    "async_copy": (4, 4),
    "tensor": (6.4, 33),
    "barrier": (4, 4),
    "branch": (2, 4),
}
_OTHER = (1.0, 4.0)
_COSTS_OF = {
    **dict.fromkeys(("FMNMX", "FSEL", "FSET", "FSETP", "FCHK"), (2.0, 4.0)),  # on integers' pipe
    **dict.fromkeys(("S2R", "S2UR", "CS2R", "R2UR"), (2.0, 25.0)),
    **dict.fromkeys(("BRA", "BRX", "CALL", "RET", "BSYNC", "WARPSYNC"), (8.0, 8.0)),
    **dict.fromkeys(("HGMMA", "IGMMA", "QGMMA", "BGMMA"), (4.0, 4.0)),
    "BAR": (25.0, 25.0),
}
"""Costs by name, where they differ from the kind's."""

_WAITS = {"global_load": "memory", "global_atomic": "memory", "local_load": "local"}
_NO_RESULT = frozenset(
    "global_store shared_store local_store async_copy tma barrier branch nop".split()
)
_REGISTER = re.compile(r"\b(UR|R|UP|P)(\d+)(\.64)?\b")
_PREDICATE = re.compile(r"U?P[T\d]")
_RESULT = re.compile(r"U?[PR](?:[TZ]|\d+)")


def paces_of(code: Code) -> tuple[Pace, ...]:
    """Return a warp's pace at each loop depth; of the slowest role, if warps have roles."""
    aside, roles = _called_function_blocks(code), roles_of(code)
    others = [aside.union(*(role for role in roles if role is not own)) for own in roles]
    warps = [_walk_without(code, left_out) for left_out in others or [aside]]
    warp = max(warps, key=lambda warp: sum(map(_alone_cycles, warp.spent.values())))
    return tuple(
        Pace(depth, round(spent.cycles, 1), round(spent.trips, 3), round(spent.local_trips, 3))
        for depth, spent in sorted(warp.spent.items())
    )


def _walk_without(code: Code, left_out: Collection[int]) -> Warp:
    """Send a warp through all blocks but some."""
    warp = _CodeWarp()
    blocks = [block for i, block in enumerate(code.blocks) if i not in left_out]
    _walk_blocks(blocks, 0, warp, counts=True)
    return warp


def _alone_cycles(spent: Spent) -> float:
    return spent.cycles + MEMORY_CYCLES * spent.trips + _LOCAL_CYCLES * spent.local_trips


def _called_function_blocks(code: Code) -> set[int]:
    """Return the blocks of called functions: mostly the slow path of a division."""
    places: set[int] = set()
    for block in code.blocks:
        if block.instructions[-1].name != "CALL" or len(block.successors) < 2:
            continue
        for place in range(block.successors[0], len(code.blocks)):
            places.add(place)
            if code.blocks[place].instructions[-1].name == "RET":
                break
    return places


def _walk_blocks(blocks: Sequence[Block], depth: int, warp: _CodeWarp, counts: bool) -> None:
    """Send a warp through blocks once, and through the loops among them twice."""
    for is_loop, run in _loop_runs(blocks, depth):
        if is_loop:
            _walk_blocks(run, depth + 1, warp, counts=False)
            _walk_blocks(run, depth + 1, warp, counts)
        else:
            for instruction in run[0].instructions:
                warp.issue(instruction, depth if counts else None)


def _loop_runs(blocks: Sequence[Block], depth: int) -> Iterator[tuple[bool, list[Block]]]:
    """Yield each block of this depth, and the blocks of deeper loops that follow each other."""
    run: list[Block] = []
    for block in blocks:
        if block.depth > depth:
            run.append(block)
            continue
        if run:
            yield True, run
            run = []
        yield False, [block]
    if run:
        yield True, run


@dataclass
class Spent:
    """Cycles and trips that a warp spent at one depth."""

    cycles: float = 0.0
    trips: float = 0.0
    local_trips: float = 0.0


@dataclass
class Warp:
    """A warp alone on its scheduler, of machine code or of an IR."""

    now: float = 0.0
    spent: dict[int, Spent] = field(default_factory=dict)
    # by register or value: when it is there, and which memory it comes from
    there: dict[str, tuple[float, str]] = field(default_factory=dict)
    copies: list[float] = field(default_factory=list)  # ends of groups of asynchronous copies
    products: float = 0.0  # the end of the last wgmma

    def commit_copies(self, at: float) -> None:
        """Let the copies begun by then be a group."""
        self.copies = [*self.copies[-15:], at + MEMORY_CYCLES]

    def count(self, depth: int, waited: float, memory: str, issue: float) -> None:
        """Count cycles of issue at a depth, and those waited before, perhaps for a memory."""
        spent = self.spent.setdefault(depth, Spent())
        spent.cycles += issue if memory else issue + waited
        if memory == "memory":
            spent.trips += waited / MEMORY_CYCLES
        elif memory == "local":
            spent.local_trips += waited / _LOCAL_CYCLES


class _CodeWarp(Warp):
    """A warp that runs machine code."""

    def issue(self, instruction: Instruction, depth: int | None) -> None:
        """Issue an instruction as soon as it can; count it at a depth unless ``None``."""
        read, written = _registers(instruction)
        kind = instruction_kind(instruction)
        ready, memory = max(
            (self.there[register] for register in read if register in self.there), default=_NOW
        )
        ready, memory = max((ready, memory), self._awaited(instruction))
        start = max(self.now, ready)
        every, latency = _COSTS_OF.get(instruction.name) or COSTS.get(kind, _OTHER)
        self._begin(instruction, start)
        for register in written:
            longer = max(latency, _PREDICATE_CYCLES) if register.startswith("P") else latency
            self.there[register] = (start + longer, _WAITS.get(kind, ""))
        if depth is not None:
            self.count(depth, start - self.now, memory, every)
        self.now = start + every

    def _awaited(self, instruction: Instruction) -> tuple[float, str]:
        """Return when fences and waits for copies or products end."""
        if instruction.name == "MEMBAR" and "GPU" in instruction.modifiers:
            return self.now + MEMORY_CYCLES, "memory"
        if instruction.name == "DEPBAR" and "LE" in instruction.modifiers:
            pending = _pending_groups(instruction)
            done = self.copies[: len(self.copies) - pending]
            return (max(done), "memory") if done else _NOW
        if instruction.opcode.startswith("WARPGROUP.DEPBAR") and not _pending_groups(instruction):
            return self.products, ""
        return _NOW

    def _begin(self, instruction: Instruction, start: float) -> None:
        """Begin what goes on while the warp does."""
        if instruction.name == "LDGDEPBAR":
            self.commit_copies(start)
        elif instruction.name.endswith("GMMA"):
            width = re.search(r"\.64x(\d+)x", instruction.opcode)
            product_cycles = int(width[1]) / 2 if width else 64.0
            self.products = max(start + _GROUP_CYCLES, self.products) + product_cycles


_NOW = (0.0, "")


def _pending_groups(instruction: Instruction) -> int:
    """Count the groups that a wait leaves under way: its last number."""
    numbers = [
        int(operand, 16)
        for operand in instruction.operands
        if re.fullmatch(r"0x[0-9a-f]+", operand)
    ]
    return numbers[-1] if numbers else 0


# ------------------------------------------------------------------------------------- registers


def _registers(instruction: Instruction) -> tuple[list[str], list[str]]:
    """Return the registers that an instruction reads, and those that it writes."""
    if instruction.name.endswith("GMMA"):  # awaited by WARPGROUP.DEPBAR
        return [], []
    results = _result_operand_count(instruction)
    read = _registers_in_operand(instruction.predicate)
    written: list[str] = []
    for place, operand in enumerate(instruction.operands):
        (written if place < results else read).extend(_registers_in_operand(operand))
    if instruction.name.endswith("MMA"):  # fragments of up to four registers
        read += [
            register for name in read if name.startswith("R") for register in _following(name, 4)
        ]
    if written and written[-1].startswith("R"):
        written += _following(written[-1], _result_registers(instruction))
    return read, written


def _result_operand_count(instruction: Instruction) -> int:
    """Count the first operands that are results: predicates, and a register after them."""
    operands = instruction.operands
    if (
        instruction_kind(instruction) in _NO_RESULT
        or instruction.name in ("RED", "REDG")
        or not operands
    ):
        return 0
    count = 1
    while count < len(operands) and _PREDICATE.fullmatch(operands[count - 1]):
        if not _RESULT.fullmatch(operands[count]):
            break
        count += 1
    return count


def _registers_in_operand(operand: str) -> list[str]:
    """Return the registers in an operand."""
    registers = []
    for kind, number, wide in _REGISTER.findall(operand):
        registers += [f"{kind}{int(number) + offset}" for offset in range(2 if wide else 1)]
    return registers


def _following(name: str, registers: int) -> list[str]:
    return [f"R{int(name[1:]) + offset}" for offset in range(1, registers)]


def _result_registers(instruction: Instruction) -> int:
    """Count the 32-bit registers that a result takes."""
    modifiers = instruction.modifiers
    if "128" in modifiers or modifiers[-1:] == ("4",) or instruction.name.endswith("MMA"):
        return 4
    return 2 if "64" in modifiers or "WIDE" in modifiers else 1
