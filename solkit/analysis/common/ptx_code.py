"""PTX as text, read into statements.

Source: PTX ISA 8.7.
"""

from __future__ import annotations

import functools
import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

Place = tuple[str, int, int]
"""File, line and column."""

ADDRESS = re.compile(r"\[\s*([%\w$]+)\s*(?:\+\s*(-?\w+))?\s*\]")
"""An operand that addresses memory: a register or symbol, and an offset."""


class Statement(NamedTuple):
    """An instruction of the text.

    Attributes:
        guard: the predicate that it runs under, ``"!%p1"``; empty without one.
        opcode: with all its modifiers.
        operands: as written, brackets and braces included.
        place: innermost, in the source.
        block: labels before it.
        depth: loops around it.
        callers: where the function around `place` was inlined, from the inside out.
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
        """Modifiers of the opcode, in their order."""
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


_LABEL = re.compile(r"([A-Za-z_$%][\w$]*)\s*:(?!:)\s*")
_COMMENT = re.compile(r"/\*.*?\*/", re.S)
_SPREAD = re.compile(
    r",[ \t]*\n[ \t]*|^([ \t]*(?:@!?[%\w]+[ \t]+)?[a-z]\w*(?:\.[\w:]+)+)[ \t]*\n", re.M
)
"""The end of a line within a statement: after a comma, or after the opcode."""
_STATEMENT = re.compile(r"(?:@(!?%\w+)\s+)?([a-z][\w.:]*)\s*(.*)", re.S)
_OPERAND = re.compile(r"\s*((?:\{[^}]*\}|\[[^\]]*\]|\([^)]*\)|[^,{\[(])+)")
_INLINED = re.compile(r"inlined_at (\d+) (\d+) (\d+)")
_FILE = re.compile(r'^\s*\.file\s+(\d+) "(.*?)"', re.M)
_MOST_CALLERS = 16


@functools.lru_cache(maxsize=2)
def read_ptx(text: str, files: str = "") -> PtxCode:
    """Read a text.

    Args:
        text: with the code of one function.
        files: a text with the ``.file`` directives; the same by default.
    """
    names = dict(_FILE.findall(files or text))
    text = _SPREAD.sub(lambda end: f"{end[1] or ','} ", _COMMENT.sub(" ", text))
    text = _with_usual_registers(_with_own_names(text))
    parts: list[_Part] = []
    labels: dict[str, int] = {}
    place: Place = ("", 0, 0)
    places: list[tuple[Place, int]] = []
    inlined: dict[Place, Place] = {}
    for raw in text.splitlines():
        line = (raw.partition("//")[0] if "//" in raw else raw).strip()
        while label := _LABEL.match(line):
            labels[label.group(1)] = len(parts)
            line = line[label.end() :]
        if line.startswith("."):
            if line.startswith((".loc\t", ".loc ")):
                place = _place_of_directive(line.split()[1:4], names)
                caller = _INLINED.search(line) if "inlined_at" in line else None
                if caller:
                    inlined[place] = _place_of_directive(caller.groups(), names)
                continue
            if ";" not in line[:-1]:  # another directive, and nothing besides
                continue
        parts.extend(_statements_of_line(line))
        places.extend([(place, len(labels))] * (len(parts) - len(places)))
    callers = {inner: tuple(_inlining_callers(inner, inlined)) for inner in inlined}
    statements = [
        Statement(*part, place, block, depth, callers.get(place, ()))
        for part, (place, block), depth in zip(
            parts, places, _loop_depths(parts, labels), strict=True
        )
    ]
    return PtxCode(tuple(statements), labels)


_INLINE = re.compile(r"// begin inline asm\n(\s*\{.*?\}\s*)// end inline asm", re.S)
_OWN = re.compile(r"\.reg\s+\.(\w+)\s+([^;]+);")
_OWN_LABEL = re.compile(r"^[ \t]*([A-Za-z_]\w*):(?!:)", re.MULTILINE)


def _with_own_names(text: str) -> str:
    """Return a text whose inline assembly names its registers and labels like all other code.

    A block in braces has names of its own, such as ``P1`` and ``LAB_WAIT``, in each copy.
    """
    numbers = itertools.count()
    return _INLINE.sub(lambda scope: _renamed_scope(scope[1], next(numbers)), text)


def _renamed_scope(scope: str, number: int) -> str:
    renamed: dict[str, str] = {}
    for kind, listed in _OWN.findall(scope):
        stem = "%p_" if kind == "pred" else "%r_"
        for name in map(str.strip, listed.split(",")):
            renamed[name] = f"{stem}{name.lstrip('%')}_{number}"
    for label in _OWN_LABEL.findall(scope):
        renamed[label] = f"$L_{label}_{number}"
    if not renamed:
        return scope
    names = "|".join(sorted(map(re.escape, renamed), key=len, reverse=True))
    scope = _OWN.sub("", scope)
    scope = re.sub(rf"(?<![\w%$.])({names})(?![\w$])", lambda name: renamed[name[1]], scope)
    return re.sub(r"(\$L_\w+:)", r"\n\1\n", scope)


_RANGE = re.compile(r"([^<\s]+)\s*<\s*\d+\s*>")


def _with_usual_registers(text: str) -> str:
    """Return a text whose registers are named as compilers name them: ``%p1`` is a predicate.

    Whoever writes PTX by hand may leave out the ``%``, or call an address ``%ptr``.
    """
    stems: dict[str, str] = {}
    patterns: list[str] = []
    for kind, listed in _OWN.findall(text):
        for name in map(str.strip, listed.split(",")):
            if name.startswith("%") and name.startswith("%p") is (kind == "pred"):
                continue
            span = _RANGE.fullmatch(name)
            stems[span[1] if span else name] = "%p_" if kind == "pred" else "%r_"
            patterns.append(rf"({re.escape(span[1])})(\d+)" if span else rf"({re.escape(name)})()")
    if not patterns:
        return text
    body = _OWN.sub("", text)
    for pattern in patterns:
        body = re.sub(rf"(?<![\w%$.]){pattern}(?![\w$])", partial(_usual_name, stems), body)
    return body


def _usual_name(stems: Mapping[str, str], name: re.Match[str]) -> str:
    return f"{stems[name[1]]}{name[1].lstrip('%')}{name[2]}"


def _place_of_directive(numbers: Sequence[str], names: Mapping[str, str]) -> Place:
    file, row, column = numbers
    return names.get(file, ""), int(row), int(column.rstrip(","))


def _inlining_callers(place: Place, inlined: Mapping[Place, Place]) -> Iterator[Place]:
    for _ in range(_MOST_CALLERS):
        if place not in inlined:
            return
        place = inlined[place]
        yield place


_Part = tuple[str, str, tuple[str, ...]]  # guard, opcode and operands


def _statements_of_line(line: str) -> Iterator[_Part]:
    """Yield the statements of a line; inline assembly may have several."""
    for part in line.split(";"):
        statement = _STATEMENT.match(part.lstrip("{} \t")) if part else None
        if statement:
            guard, opcode, rest = statement.groups()
            if "{" in rest or "[" in rest or "(" in rest:
                operands = _OPERAND.findall(rest)
            else:
                operands = rest.split(",") if rest else []
            yield guard or "", opcode, tuple([operand.strip() for operand in operands])


def _loop_depths(parts: Sequence[_Part], labels: Mapping[str, int]) -> list[int]:
    """Return loops around each; a loop reaches from a label to the last branch back to it."""
    ends: dict[int, int] = {}
    for i, (_, opcode, operands) in enumerate(parts):
        if opcode.startswith("bra") and labels.get(operands[0], i + 1) <= i:
            ends[labels[operands[0]]] = i
    depths = [0] * len(parts)
    for start, end in ends.items():
        depths[start : end + 1] = [depth + 1 for depth in depths[start : end + 1]]
    return depths
