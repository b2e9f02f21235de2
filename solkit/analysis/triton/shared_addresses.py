"""Bytes of shared memory that the threads of a block access, from the kernel's PTX.

PTX is followed for all threads of one block at once, through the integers that shared addresses are
computed from. These contain the compiler's choices: swizzles, padding, scratch of conversions and
reductions. Code is followed once, in the order of its text, so loops show their first iteration.
Kernel arguments and block numbers are one unknown number for all threads: added to an address, it
moves all lanes equally, so bank conflicts stay the same. What depends on data is unknown. Source:
PTX ISA 8.7.
"""

from __future__ import annotations

import functools
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import PurePath
from typing import Any

import numpy as np

from solkit.analysis.common.ptx_code import ADDRESS, Place, Statement, read_ptx
from solkit.analysis.common.ptx_numbers import OPERATIONS, Array, as_bits, operation, type_of


@dataclass(frozen=True, eq=False)
class SharedInstruction:
    """One instruction of the code that accesses shared memory.

    Attributes:
        kind: ``"load"``, ``"store"``, ``"copy"`` (``cp.async``) or ``"atomic"``.
        place: innermost, in the source.
        depth: loops around it.
        width_bytes: of one address: a row of 16 for ``ldmatrix`` and ``stmatrix``.
        addresses: of each thread, up to a common offset; -1 for inactive threads; ``None`` if
            unknown.
        run: equal for instructions that nothing separates: guard and register of the address,
            block of the code, stores and barriers so far.
    """

    kind: str
    place: Place
    depth: int
    width_bytes: int
    addresses: Array | None
    run: tuple[str, str, int, int] = ("", "", 0, 0)


@dataclass(frozen=True, eq=False)
class _Value:
    """A register of all threads, `shifted` by an unknown common number."""

    threads: Array
    shifted: bool = False

    @property
    def uniform(self) -> bool:
        return bool((self.threads == self.threads[0]).all())


def shared_instructions(ptx: str) -> list[SharedInstruction]:
    """Return every load, store, copy and atomic of shared memory in a kernel.

    Adjacent loads count as one, as ptxas makes ``LDS.64`` and ``LDS.128`` of them.

    Raises:
        ValueError: the kernel does not say how many threads its blocks have.
    """
    threads = re.search(r"\.(?:req|max)ntid (\d+)", ptx)
    if threads is None:
        raise ValueError("the PTX does not say how many threads a block has")
    return _merged_loads(_Follower(int(threads.group(1))).follow(read_ptx(ptx).statements))


def barriers_of(ptx: str) -> list[tuple[Place, int]]:
    """Place and loop depth of each barrier of a block's warps."""
    return [
        (_without_folder(statement.place), statement.depth)
        for statement in read_ptx(ptx).statements
        if statement.opcode.startswith("bar") and _BARRIER.match(statement.opcode)
    ]


def instructions_of(ptx: str) -> Mapping[tuple[Place, int], int]:
    """Count each place's instructions, by loop depth; without moves, which ptxas removes."""
    by_place = Counter((s.place, s.depth) for s in read_ptx(ptx).statements if s.name != "mov")
    by_short_place: Counter[tuple[Place, int]] = Counter()
    for (place, depth), count in by_place.items():
        by_short_place[_without_folder(place), depth] += count
    return by_short_place


# -------------------------------------------------------------------------------------- following

_SHARED = re.compile(
    r"(ld|st|atom|red|cp\.async\.c[ag]|ldmatrix|stmatrix)\b[\w.:]*\.shared(?:::cta)?(?![\w:])"
)
_KINDS = {"ld": "load", "ldmatrix": "load", "st": "store", "stmatrix": "store"}
_KINDS |= {"atom": "atomic", "red": "atomic"}
_UNIFORM = re.compile(r"%(n?ctaid|n?clusterid|cluster_n?cta\w+|gridid|ntid|smid|nsmid)\b")
_BARRIER = re.compile(r"(bar|barrier(\.cta)?)\.(sync|red)\b")
_LITERAL = re.compile(r"-?(0x[0-9a-fA-F]+|\d+)U?")
_SYMBOL = re.compile(r"[A-Za-z_$][\w$]*")
_WORD = 4
_BITS = re.compile(r"[busf](\d+)$")


class _Follower:
    def __init__(self, threads: int) -> None:
        self.numbers: Array = np.arange(threads, dtype=np.int64)
        self.anything = _Value(np.zeros_like(self.numbers), shifted=True)
        self.registers: dict[str, _Value | None] = {}
        self.parted = 0

    def follow(self, statements: Sequence[Statement]) -> Iterator[SharedInstruction]:
        for statement, needed in zip(statements, _needed_statements(statements), strict=True):
            self.parted += statement.opcode.startswith(("bar", "mbarrier", "bra", "st"))
            if name := _shared_name(statement.opcode):
                yield self._access(statement, name)
            if needed:
                register, *others = _written_registers(statement)
                # under a guard, the other threads keep an old value, which is not followed
                self.registers[register] = None if statement.guard else self._computed(statement)
                self.registers.update(dict.fromkeys(others))

    def _access(self, statement: Statement, name: str) -> SharedInstruction:
        kind = "copy" if name.startswith("cp") else _KINDS[name]
        memory = next(filter(None, map(ADDRESS.search, statement.operands)), None)
        at = self._value(memory.group(1)) if memory else None
        active = self._active(statement.guard)
        where = None
        if memory and at is not None and active is not None and kind != "atomic":
            where = at.threads + int(memory.group(2) or "0", 0)
            if "matrix" in name:  # 8 lanes give the rows of one matrix
                matrices = re.search(r"\.x(\d)", statement.opcode)
                active = active & (self.numbers % 32 < 8 * int(matrices[1] if matrices else 1))
            # shifted addresses may be negative, which would mean inactive
            where = np.where(active, where - min(int(where.min()) // 128 * 128, 0), -1)
        run = (statement.guard, memory.group(1) if memory else "", statement.block, self.parted)
        return SharedInstruction(
            kind,
            _without_folder(statement.place),
            statement.depth,
            _access_width(statement, name),
            where,
            run,
        )

    def _active(self, guard: str) -> Array | None:
        if not guard:
            return np.ones(len(self.numbers), bool)
        value = self.registers.get(guard.lstrip("!"))
        if value is None:
            return None
        if value.shifted:  # all threads or none: assume all
            return np.ones(len(self.numbers), bool) if value.uniform else None
        chosen: Array = (value.threads != 0) ^ guard.startswith("!")
        return chosen

    def _value(self, text: str) -> _Value | None:
        if text in self.registers:
            return self.registers[text]
        value = self._given(text)
        if value is not None:  # the same text always has this value
            self.registers[text] = value
        return value

    def _given(self, text: str) -> _Value | None:
        if text in ("%tid.x", "%laneid"):
            return _Value(self.numbers % (32 if text == "%laneid" else len(self.numbers)))
        if text in ("%tid.y", "%tid.z") or _SYMBOL.fullmatch(text):
            return _Value(np.zeros_like(self.numbers))  # a variable: only relative places matter
        if _LITERAL.fullmatch(text):
            number = (int(text.rstrip("U"), 0) + (1 << 63)) % (1 << 64) - (1 << 63)
            return _Value(np.full_like(self.numbers, number))
        return self.anything if _UNIFORM.match(text) else None

    def _computed(self, statement: Statement) -> _Value | None:
        name, kinds = statement.name, statement.modifiers
        if name == "ld":
            return self.anything if "param" in kinds else None
        values = [self._value(text) for text in statement.operands[1:]]
        if any(value is None for value in values):
            return None
        sources = [value for value in values if value is not None]
        if name == "shfl" and "idx" in kinds and sources[1].uniform and not sources[0].shifted:
            from_lane = self.numbers // 32 * 32 + sources[1].threads[0] % 32
            return _Value(sources[0].threads[from_lane])
        if name in ("mul", "mad") and "hi" in kinds:
            return None
        if name == "mad":
            product = _applied_to_values("mul", kinds, sources[:2])
            added = ("b64",) if "wide" in kinds else kinds[1:]
            return product and _applied_to_values("add", added, [product, sources[2]])
        return _applied_to_values(name, kinds, sources)


def _shared_name(opcode: str) -> str:
    """Return the start of a shared-memory access's opcode; empty for other opcodes."""
    match = _SHARED.match(opcode) if ".shared" in opcode else None
    return match.group(1) if match else ""


def _written_registers(statement: Statement) -> list[str]:
    """Return the registers that a statement may write."""
    if not statement.operands or not statement.operands[0].startswith("%"):
        return []
    return [name.strip() for name in statement.operands[0].split("|", 1)]


def _needed_statements(statements: Sequence[Statement]) -> list[bool]:
    """Tell which statements write a register that a later shared-memory address derives from."""
    live_registers: set[str] = set()
    needed: list[bool] = []
    for statement in reversed(statements):
        needed.append(not live_registers.isdisjoint(_written_registers(statement)))
        if needed[-1]:
            live_registers.update(statement.operands[1:])
        if _shared_name(statement.opcode):
            live_registers.add(statement.guard.lstrip("!"))
            live_registers.update(
                match.group(1) for match in map(ADDRESS.search, statement.operands) if match
            )
    return needed[::-1]


def _access_width(statement: Statement, name: str) -> int:
    if "matrix" in name:
        return 16
    if name.startswith("cp"):
        return int(statement.operands[2], 0)
    vector = re.search(r"\.v(\d)", statement.opcode)
    bits = _BITS.search(statement.opcode)
    return (int(vector.group(1)) if vector else 1) * (int(bits.group(1)) if bits else 32) // 8


def _without_folder(place: Place) -> Place:
    file, line, column = place
    return _file_name(file), line, column


@functools.cache
def _file_name(path: str) -> str:
    return PurePath(path).name


# ---------------------------------------------------------------------------------------- merging


def _merged_loads(instructions: Iterable[SharedInstruction]) -> list[SharedInstruction]:
    """Merge adjacent loads: two words to 8 bytes, and two of those to 16."""
    merged: list[SharedInstruction] = []
    runs: dict[tuple[Any, ...], dict[int, SharedInstruction]] = {}
    for instruction in instructions:
        run = runs.setdefault(instruction.run, {})
        if (
            instruction.kind == "load"
            and instruction.addresses is not None
            and not instruction.width_bytes % _WORD
        ):
            same = run.setdefault(int(instruction.addresses.max()), instruction)
            if same is instruction:
                continue
        merged.append(instruction)
    for run in runs.values():
        merged.extend(
            _joined_to_double_width(_joined_to_double_width(run, _WORD), 2 * _WORD).values()
        )
    return merged


def _joined_to_double_width(
    run: Mapping[int, SharedInstruction], width: int
) -> dict[int, SharedInstruction]:
    """Join two adjacent accesses of a width to one of twice the width, by address."""
    remaining = dict(run)
    for at in sorted(run):
        low, high = remaining.get(at), remaining.get(at + width)
        if low is None or high is None or low.addresses is None:
            continue
        aligned = (low.addresses[low.addresses >= 0] % (2 * width) == 0).all()
        if aligned and low.width_bytes == high.width_bytes == width:
            remaining[at] = replace(low, width_bytes=2 * width)
            del remaining[at + width]
    return remaining


# -------------------------------------------------------------------------------------- computing


def _applied_to_values(name: str, kinds: Sequence[str], values: Sequence[_Value]) -> _Value | None:
    """Return an instruction on known numbers, some of which have an unknown common part."""
    operands, _ = OPERATIONS.get(name, (0, None))
    compute = operation(name, kinds)
    if compute is None or operands != len(values):
        return None
    threads = [value.threads for value in values]
    if not any(value.shifted for value in values):
        return _Value(compute(*threads))
    if all(value.uniform for value in values):
        return _Value(np.zeros_like(values[0].threads), shifted=True)
    scale = name in ("mul", "shl") and values[1].uniform and not values[1].shifted
    if name in ("add", "sub", "mov", "cvt", "cvta") or scale:
        bits, signed = type_of(kinds) or (32, False)
        _, plain = OPERATIONS[name]
        return _Value(
            plain(kinds, *(as_bits(thread, bits, signed) for thread in threads)), shifted=True
        )
    return None
