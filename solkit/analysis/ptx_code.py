"""PTX as text, read into statements.

Source of all that is read here: PTX ISA 8.7.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

__all__ = ["ADDRESS", "Place", "PtxCode", "Statement", "read_ptx"]

Place = tuple[str, int, int]
"""File, line and column."""

ADDRESS = re.compile(r"\[\s*([%\w$]+)\s*(?:\+\s*(-?\w+))?\s*\]")
"""An operand that addresses memory: a register or symbol, and an offset."""


@dataclass(frozen=True)
class Statement:
    """An instruction as it stands in the text.

    Attributes:
        guard: the predicate that it runs under, ``"!%p1"``; empty without one.
        opcode: with all its modifiers.
        operands: as written, brackets and braces included.
        place: innermost, in the source.
        block: how many labels stand before it.
        depth: loops around it.
        callers: where the function that holds `place` was inlined, from the inside out.
    """

    guard: str
    opcode: str
    operands: tuple[str, ...]
    place: Place
    block: int
    depth: int = 0
    callers: tuple[Place, ...] = ()

    @property
    def name(self) -> str:
        """The opcode without its modifiers."""
        return self.opcode.partition(".")[0]

    @property
    def modifiers(self) -> tuple[str, ...]:
        """Those of the opcode, in their order."""
        return tuple(self.opcode.split(".")[1:])


@dataclass(frozen=True)
class PtxCode:
    """The statements of a text.

    Attributes:
        statements: in their order.
        labels: the index of the statement that follows each.
    """

    statements: tuple[Statement, ...]
    labels: Mapping[str, int]


_LABEL = re.compile(r"(\$L_\w+):")
_STATEMENT = re.compile(r"(?:@(!?%\w+)\s+)?([a-z][\w.:]*)\s*(.*)", re.S)
_OPERAND = re.compile(r"\s*((?:\{[^}]*\}|\[[^\]]*\]|\([^)]*\)|[^,{\[(])+)")
_INLINED = re.compile(r"inlined_at (\d+) (\d+) (\d+)")
_FILE = re.compile(r'^\s*\.file\s+(\d+) "(.*?)"', re.M)
_MOST_CALLERS = 16


def read_ptx(text: str, files: str = "") -> PtxCode:
    """Read a text.

    Args:
        text: with the code of one function.
        files: a text with the ``.file`` directives; the same by default.
    """
    names = dict(_FILE.findall(files or text))
    found: list[Statement] = []
    labels: dict[str, int] = {}
    place: Place = ("", 0, 0)
    inlined: dict[Place, Place] = {}
    for raw in text.splitlines():
        line = raw.partition("//")[0].strip()
        if line.startswith((".loc\t", ".loc ")):
            place = _place(line.split()[1:4], names)
            caller = _INLINED.search(line)
            if caller:
                inlined[place] = _place(caller.groups(), names)
        elif label := _LABEL.match(line):
            labels[label.group(1)] = len(found)
        else:
            found.extend(_parts(line, place, len(labels)))
    callers = {each: tuple(_callers(each, inlined)) for each in inlined}
    return PtxCode(tuple(_with_depths(found, labels, callers)), labels)


def _place(numbers: Sequence[str], names: Mapping[str, str]) -> Place:
    file, row, column = numbers
    return names.get(file, ""), int(row), int(column.rstrip(","))


def _callers(place: Place, inlined: Mapping[Place, Place]) -> Iterator[Place]:
    for _ in range(_MOST_CALLERS):
        if place not in inlined:
            return
        place = inlined[place]
        yield place


def _parts(line: str, place: Place, block: int) -> Iterator[Statement]:
    """The statements of a line; of inline assembly there may be several."""
    for part in line.split(";"):
        statement = _STATEMENT.match(part.lstrip("{} \t"))
        if statement:
            guard, opcode, rest = statement.groups()
            operands = tuple(operand.strip() for operand in _OPERAND.findall(rest))
            yield Statement(guard or "", opcode, operands, place, block)


def _with_depths(
    statements: Sequence[Statement],
    labels: Mapping[str, int],
    callers: Mapping[Place, tuple[Place, ...]],
) -> Iterator[Statement]:
    """A loop reaches from a label to the last branch back to it."""
    ends: dict[int, int] = {}
    for i, each in enumerate(statements):
        if each.opcode.startswith("bra") and labels.get(each.operands[0], i + 1) <= i:
            ends[labels[each.operands[0]]] = i
    for i, each in enumerate(statements):
        depth = sum(start <= i <= end for start, end in ends.items())
        yield replace(each, depth=depth, callers=callers.get(each.place, ()))
