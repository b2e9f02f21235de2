"""Which bytes of shared memory the threads of a block access, from the kernel's PTX.

PTX is followed for all threads of one block at once, through the integers that shared addresses are
made of: whatever lowering the compiler chose (swizzles, padding, scratch of conversions and
reductions) is in them. Code is followed once in the order of its text, which shows loops in their
first round. Kernel arguments, block numbers and the like are one unknown number for all threads:
added to an address, it moves all lanes alike, so that they meet in banks as before. What depends on
data is not known. Source of all that is read here: PTX ISA 8.7.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import PurePath
from typing import Any

import numpy as np

__all__ = ["Place", "SharedInstruction", "barriers_of", "shared_instructions"]

Array = np.ndarray[Any, np.dtype[Any]]
Place = tuple[str, int, int]
"""File's name, line and column."""


@dataclass(frozen=True, eq=False)
class SharedInstruction:
    """One instruction that accesses shared memory, as it stands in the code.

    Attributes:
        kind: ``"load"``, ``"store"``, ``"copy"`` (``cp.async``) or ``"atomic"``.
        place: innermost, in the source.
        depth: loops around it.
        width_bytes: that one address stands for: a row of 16 for ``ldmatrix`` and ``stmatrix``.
        addresses: of each thread, up to a number that all have in common; -1 where it gives none.
            ``None`` where they are not known.
        run: what it shares with others of its kind that nothing keeps apart: guard and register of
            the address, block of the code, stores and barriers so far.
    """

    kind: str
    place: Place
    depth: int
    width_bytes: int
    addresses: Array | None
    run: tuple[str, str, int, int] = ("", "", 0, 0)


@dataclass(frozen=True, eq=False)
class _Value:
    """A register of all threads; `shifted` by an unknown number that they share."""

    threads: Array
    shifted: bool = False

    @property
    def uniform(self) -> bool:
        return bool((self.threads == self.threads[0]).all())


@dataclass(frozen=True)
class _Statement:
    guard: str
    opcode: str
    operands: tuple[str, ...]
    place: Place
    block: int
    depth: int = 0


def shared_instructions(ptx: str) -> list[SharedInstruction]:
    """Every load, store, copy and atomic of shared memory in a kernel.

    Loads side by side are one, as ptxas makes ``LDS.64`` and ``LDS.128`` of them.

    Raises:
        ValueError: the kernel does not say how many threads its blocks have.
    """
    threads = re.search(r"\.(?:req|max)ntid (\d+)", ptx)
    if threads is None:
        raise ValueError("the PTX does not say how many threads a block has")
    return _merged(_Follower(int(threads.group(1))).follow(_statements(ptx)))


def barriers_of(ptx: str) -> list[tuple[Place, int]]:
    """Place and loop depth of each barrier at which a block's warps wait for each other."""
    wanted = re.compile(r"(bar|barrier(\.cta)?)\.(sync|red)\b")
    return [(each.place, each.depth) for each in _statements(ptx) if wanted.match(each.opcode)]


# ---------------------------------------------------------------------------------------- reading

_LABEL = re.compile(r"(\$L__BB\w+):")
_STATEMENT = re.compile(r"(?:@(!?%\w+)\s+)?([a-z][\w.:]*)\s*(.*)", re.S)
_OPERAND = re.compile(r"\s*((?:\{[^}]*\}|\[[^\]]*\]|[^,{\[])+)")


def _statements(ptx: str) -> list[_Statement]:
    listed = re.findall(r'^\s*\.file\s+(\d+) "(.*?)"', ptx, re.M)
    files = {number: PurePath(path).name for number, path in listed}
    found: list[_Statement] = []
    labels: dict[str, int] = {}
    place: Place = ("", 0, 0)
    for raw in ptx.splitlines():
        line = raw.partition("//")[0].strip()
        if line.startswith(".loc"):
            number, row, column = line.split()[1:4]
            place = (files.get(number, ""), int(row), int(column.rstrip(",")))
        elif label := _LABEL.match(line):
            labels[label.group(1)] = len(found)
        else:
            found.extend(_parts(line, place, len(labels)))
    return _with_depths(found, labels)


def _parts(line: str, place: Place, block: int) -> Iterator[_Statement]:
    """The statements of a line; of inline assembly there may be several."""
    for part in line.split(";"):
        statement = _STATEMENT.match(part.lstrip("{} \t"))
        if statement:
            guard, opcode, rest = statement.groups()
            operands = tuple(operand.strip() for operand in _OPERAND.findall(rest))
            yield _Statement(guard or "", opcode, operands, place, block)


def _with_depths(statements: Sequence[_Statement], labels: Mapping[str, int]) -> list[_Statement]:
    """A loop reaches from a label to the last branch back to it."""
    ends: dict[int, int] = {}
    for i, each in enumerate(statements):
        if each.opcode.startswith("bra") and labels.get(each.operands[0], i + 1) <= i:
            ends[labels[each.operands[0]]] = i
    return [
        replace(each, depth=sum(start <= i <= end for start, end in ends.items()))
        for i, each in enumerate(statements)
    ]


# -------------------------------------------------------------------------------------- following

_SHARED = re.compile(
    r"(ld|st|atom|red|cp\.async\.c[ag]|ldmatrix|stmatrix)\b[\w.:]*\.shared(?:::cta)?(?![\w:])"
)
_KINDS = {"ld": "load", "ldmatrix": "load", "st": "store", "stmatrix": "store"}
_KINDS |= {"atom": "atomic", "red": "atomic"}
_UNIFORM = re.compile(r"%(n?ctaid|n?clusterid|cluster_n?cta\w+|gridid|ntid|smid|nsmid)\b")
_ADDRESS = re.compile(r"\[\s*([%\w$]+)\s*(?:\+\s*(-?\w+))?\s*\]")
_WORD = 4
_BITS = re.compile(r"[busf](\d+)$")
_FLOATING = re.compile(r"b?f\d+|e\dm\d")


class _Follower:
    def __init__(self, threads: int) -> None:
        self.numbers: Array = np.arange(threads, dtype=np.int64)
        self.anything = _Value(np.zeros_like(self.numbers), shifted=True)
        self.registers: dict[str, _Value | None] = {}
        self.parted = 0

    def follow(self, statements: Sequence[_Statement]) -> Iterator[SharedInstruction]:
        for each in statements:
            shared = _SHARED.match(each.opcode)
            self.parted += each.opcode.startswith(("bar", "mbarrier", "bra", "st"))
            if shared:
                yield self._access(each, shared.group(1))
            if each.operands and each.operands[0].startswith("%"):
                name, _, other = each.operands[0].partition("|")
                # under a guard, what the other threads have had is not kept apart
                self.registers[name.strip()] = None if each.guard else self._computed(each)
                self.registers[other.strip()] = None

    def _access(self, each: _Statement, name: str) -> SharedInstruction:
        kind = "copy" if name.startswith("cp") else _KINDS[name]
        memory = next(filter(None, map(_ADDRESS.search, each.operands)), None)
        at = self._value(memory.group(1)) if memory else None
        active = self._active(each.guard)
        where = None
        if memory and at is not None and active is not None and kind != "atomic":
            where = at.threads + int(memory.group(2) or "0", 0)
            if "matrix" in name:  # 8 lanes give the rows of one matrix
                matrices = re.search(r"\.x(\d)", each.opcode)
                active = active & (self.numbers % 32 < 8 * int(matrices[1] if matrices else 1))
            # where they are all shifted they may be negative, which stands for none
            where = np.where(active, where - min(int(where.min()) // 128 * 128, 0), -1)
        run = (each.guard, memory.group(1) if memory else "", each.block, self.parted)
        return SharedInstruction(kind, each.place, each.depth, _width(each, name), where, run)

    def _active(self, guard: str) -> Array | None:
        if not guard:
            return np.ones(len(self.numbers), bool)
        value = self.registers.get(guard.lstrip("!"))
        if value is None:
            return None
        if value.shifted:  # all or none: how it is where they do
            return np.ones(len(self.numbers), bool) if value.uniform else None
        chosen: Array = (value.threads != 0) ^ guard.startswith("!")
        return chosen

    def _value(self, text: str) -> _Value | None:
        if text in self.registers:
            return self.registers[text]
        if text in ("%tid.x", "%laneid"):
            return _Value(self.numbers % (32 if text == "%laneid" else len(self.numbers)))
        if text in ("%tid.y", "%tid.z") or re.fullmatch(r"[A-Za-z_$][\w$]*", text):
            return _Value(np.zeros_like(self.numbers))  # a variable: where others are is relative
        if re.fullmatch(r"-?(0x[0-9a-fA-F]+|\d+)U?", text):
            number = (int(text.rstrip("U"), 0) + (1 << 63)) % (1 << 64) - (1 << 63)
            return _Value(np.full_like(self.numbers, number))
        return self.anything if _UNIFORM.match(text) else None

    def _computed(self, each: _Statement) -> _Value | None:
        name, *kinds = each.opcode.split(".")
        if name == "ld":
            return self.anything if "param" in kinds else None
        values = [self._value(text) for text in each.operands[1:]]
        if any(value is None for value in values):
            return None
        known = [value for value in values if value is not None]
        if name == "shfl" and "idx" in kinds and known[1].uniform and not known[0].shifted:
            from_lane = self.numbers // 32 * 32 + known[1].threads[0] % 32
            return _Value(known[0].threads[from_lane])
        if name in ("mul", "mad") and "hi" in kinds:
            return None
        if name == "mad":
            product = _applied("mul", kinds, known[:2])
            added = ["b64"] if "wide" in kinds else kinds[1:]
            return product and _applied("add", added, [product, known[2]])
        return _applied(name, kinds, known)


def _width(each: _Statement, name: str) -> int:
    if "matrix" in name:
        return 16
    if name.startswith("cp"):
        return int(each.operands[2], 0)
    vector = re.search(r"\.v(\d)", each.opcode)
    bits = _BITS.search(each.opcode)
    return (int(vector.group(1)) if vector else 1) * (int(bits.group(1)) if bits else 32) // 8


# ---------------------------------------------------------------------------------------- merging


def _merged(instructions: Iterable[SharedInstruction]) -> list[SharedInstruction]:
    """With neighbouring loads put together, two words to 8 bytes and two of those to 16."""
    found: list[SharedInstruction] = []
    runs: dict[tuple[Any, ...], dict[int, SharedInstruction]] = {}
    for each in instructions:
        run = runs.setdefault(each.run, {})
        if each.kind == "load" and each.addresses is not None and not each.width_bytes % _WORD:
            same = run.setdefault(int(each.addresses.max()), each)
            if same is each:
                continue
        found.append(each)
    for run in runs.values():
        found.extend(_doubled(_doubled(run, _WORD), 2 * _WORD).values())
    return found


def _doubled(run: Mapping[int, SharedInstruction], width: int) -> dict[int, SharedInstruction]:
    """Those of a width whose other half is there as well, by address, as one of twice the width."""
    left = dict(run)
    for at in sorted(run):
        low, high = left.get(at), left.get(at + width)
        if low is None or high is None or low.addresses is None:
            continue
        aligned = (low.addresses[low.addresses >= 0] % (2 * width) == 0).all()
        if aligned and low.width_bytes == high.width_bytes == width:
            left[at] = replace(low, width_bytes=2 * width)
            del left[at + width]
    return left


# -------------------------------------------------------------------------------------- computing


def _applied(name: str, kinds: Sequence[str], values: Sequence[_Value]) -> _Value | None:
    """An instruction of numbers that are known, some of them but for what threads share."""
    operands, compute = _OPERATIONS.get(name, (0, None))
    if compute is None or operands != len(values) or any(map(_FLOATING.match, kinds)):
        return None
    types = [kind for kind in kinds if _BITS.fullmatch(kind) or kind == "pred"]
    bits, signed = _typed(types[-1] if types else "b32")
    threads = [_as(value.threads, bits, signed) for value in values]
    result = bits * 2 if "wide" in kinds else _typed(types[0])[0] if name == "cvt" else bits
    if not any(value.shifted for value in values):
        return _Value(_as(compute(kinds, *threads), result, signed=False))
    if all(value.uniform for value in values):
        return _Value(np.zeros_like(values[0].threads), shifted=True)
    scale = name in ("mul", "shl") and values[1].uniform and not values[1].shifted
    if name in ("add", "sub", "mov", "cvt", "cvta") or scale:
        return _Value(_as(compute(kinds, *threads), 64, signed=True), shifted=True)
    return None


def _typed(kind: str) -> tuple[int, bool]:
    return (1, False) if kind == "pred" else (int(kind[1:]), kind[0] == "s")


def _as(values: Array, bits: int, signed: bool) -> Array:
    """Numbers of so many bits; of 64 as they are."""
    if bits >= 64:
        return values
    low = values & ((1 << bits) - 1)
    return np.where(low >> (bits - 1), low - (1 << bits), low) if signed else low


def _compared(kinds: Sequence[str], a: Array, b: Array) -> Array:
    found: Array = _COMPARISONS[kinds[0]](a, b)
    return found.astype(np.int64)


def _field(kinds: Sequence[str], a: Array, start: Array, length: Array) -> Array:
    field = (a >> start) & ((1 << length) - 1)
    return field - ((field >> (length - 1)) << length) if kinds[0][0] == "s" else field


def _looked_up(_: Sequence[str], a: Array, b: Array, c: Array, table: Array) -> Array:
    """``lop3``: bit i of the table is the result where a, b and c are the bits of i."""
    found = np.zeros_like(a)
    for i in range(8):
        if int(table[0]) >> i & 1:
            found |= (a if i & 4 else ~a) & (b if i & 2 else ~b) & (c if i & 1 else ~c)
    return found


_COMPARISONS: Mapping[str, Callable[[Array, Array], Array]] = {
    **{"eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal},
    **{"gt": np.greater, "ge": np.greater_equal, "lo": np.less, "ls": np.less_equal},
    **{"hi": np.greater, "hs": np.greater_equal},
}
_OPERATIONS: Mapping[str, tuple[int, Callable[..., Array]]] = {
    **dict.fromkeys(("mov", "cvt", "cvta"), (1, lambda _, a: a)),
    "not": (1, lambda _, a: ~a),
    "neg": (1, lambda _, a: -a),
    "add": (2, lambda _, a, b: a + b),
    "sub": (2, lambda _, a, b: a - b),
    "mul": (2, lambda _, a, b: a * b),
    "and": (2, lambda _, a, b: a & b),
    "or": (2, lambda _, a, b: a | b),
    "xor": (2, lambda _, a, b: a ^ b),
    "shl": (2, lambda _, a, b: a << np.minimum(b, 63)),
    "shr": (2, lambda _, a, b: a >> np.minimum(b, 63)),
    "min": (2, lambda _, a, b: np.minimum(a, b)),
    "max": (2, lambda _, a, b: np.maximum(a, b)),
    "setp": (2, _compared),
    "selp": (3, lambda _, a, b, chosen: np.where(chosen != 0, a, b)),
    "bfe": (3, _field),
    "lop3": (4, _looked_up),
}
"""Operands and meaning."""
