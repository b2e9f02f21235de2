"""Read which source line each instruction of Triton's PTX is of, and how wide its accesses are.

Since Triton 3.8 LLVM writes a ``.loc`` before each line of inline assembly, and counts its lines on
from the place of the block: a masked load at 9:24 names the lines 9, 10, 11 ... The place in force
where a block begins holds for all of it, and after it until the next ``.loc`` outside.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import PurePath
from typing import NamedTuple

Widths = Mapping[tuple[str, int, int, str], int]
"""Bytes that a thread's memory instruction moves, by (file's name, line, column, kind)."""

_MEMORY = re.compile(
    r"\b(ld\.global|st\.global|cp\.async\.c[ag]\.shared\.global|atom\.global|red\.global)([\w.:]*)"
)
_KIND = {"ld": "load", "st": "store", "cp": "async", "at": "atomic", "re": "atomic"}
_FILE = re.compile(r'^\s*\.file\s+(\d+) "(.*?)"', re.M)

_Place = tuple[str, int, int]  # number of the file, line, column


class _Line(NamedTuple):
    """A line of the text.

    Attributes:
        text: its own.
        place: what it is of.
        named: the last place that the text names.
    """

    text: str
    place: _Place
    named: _Place


def _source_lines(ptx: str) -> Iterator[_Line]:
    place: _Place = ("0", 0, 0)
    named, is_inline = place, False
    for text in ptx.splitlines():
        bare = text.lstrip()
        if bare.startswith((".loc\t", ".loc ")):  # ".local" declares an array
            number, row, column = bare.split()[1:4]
            named = (number, int(row), int(column.rstrip(",")))
            place = place if is_inline else named
        elif bare.startswith("// begin inline asm"):
            is_inline = True
        elif bare.startswith("// end inline asm"):
            is_inline = False
        yield _Line(text, place, named)


def mended_lines(ptx: str) -> dict[int, str]:
    """``"file:line"`` by line of the text, from 1, where the text names another place last."""
    files = dict(_FILE.findall(ptx))
    return {
        number: f"{files.get(line.place[0], '')}:{line.place[1]}"
        for number, line in enumerate(_source_lines(ptx), 1)
        if line.named[:2] != line.place[:2]
    }


def vector_widths(ptx: str) -> dict[tuple[str, int, int, str], int]:
    """Return bytes that a thread's memory instruction moves, by source location.

    Returns:
        The widest by (file's name, line, column, kind); the kind is ``"load"``, ``"store"``,
        ``"async"`` or ``"atomic"``.
    """
    files = {number: PurePath(path).name for number, path in _FILE.findall(ptx)}
    widths: dict[tuple[str, int, int, str], int] = {}
    for line in _source_lines(ptx):
        if ".global" in line.text and (match := _MEMORY.search(line.text)):
            number, row, column = line.place
            key = (files.get(number, ""), row, column, _KIND[match.group(1)[:2]])
            widths[key] = max(widths.get(key, 0), _access_width(match, line.text))
    return widths


def _access_width(match: re.Match[str], line: str) -> int:
    if match.group(1).startswith("cp"):  # its size is the third operand
        sizes = re.findall(r"\], (0x[0-9a-f]+|\d+)", line)
        return int(sizes[0], 0) if sizes else 16
    vector = re.search(r"\.v(\d)", match.group(2))
    element = re.findall(r"\.[busf](\d+)|\.bf16x2|\.f16x2|\.bf16", match.group(2))
    bits = int(element[-1]) if element and element[-1] else 32
    return (int(vector.group(1)) if vector else 1) * bits // 8
