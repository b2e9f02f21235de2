"""Read the machine code of an AMD kernel from the assembly that LLVM writes.

There is no assembler behind it that decides anything: one line is one instruction, as in the code
object. Formats: LLVM, "User Guide for AMDGPU Backend" and "Syntax of AMDGPU Instructions".
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePath
from typing import NamedTuple

from solkit.adapters.sass import Code, Instruction, reachable_code

_LABEL = re.compile(r"([.$\w]+):")
_INSTRUCTION = re.compile(r"\t([a-z]\w+)(?:[ \t]+([^;]*))?")
_FILE = re.compile(r'^\s*\.file\s+(\d+)\s+(?:"[^"]*"\s+)?"([^"]*)"', re.M)
_LOC = re.compile(r"\s*\.loc\s+(\d+)\s+(\d+)\s+(\d+)(?:[^;]*;\s*(.*))?")
_PLACE = re.compile(r"([^\s@\[\]]+:\d+):\d+")
_ENDS = ("s_endpgm", "s_setpc_b64", "s_branch", "s_trap")
_JUMPS = ("s_branch", "s_cbranch")

_ACCESS = re.compile(
    r"(?P<space>buffer|global|flat|scratch|ds)_(?P<kind>load|store|atomic|read|write)(?P<rest>\w*)"
)
_SIZES = {"dword": 4, "byte": 1, "ubyte": 1, "sbyte": 1, "short": 2, "ushort": 2, "sshort": 2}


class _Line(NamedTuple):
    """A line with an instruction or a label.

    Attributes:
        label: its own; empty for an instruction.
        opcode, operands: of the instruction.
        place: file's number, line and column.
        lines: ``file:line`` of the source, then of each inlined call around it.
    """

    label: str
    opcode: str
    operands: str
    place: tuple[str, int, int]
    lines: tuple[str, ...]


def _lines(text: str) -> Iterator[_Line]:
    """Yield the lines of the first function, the kernel."""
    place, lines, inside = ("0", 0, 0), (), False
    files = dict(_FILE.findall(text))
    for line in text.splitlines():
        bare = line.lstrip()
        if not inside:
            inside = "; @" in line
        elif bare.startswith(".Lfunc_end"):
            return
        elif loc := _LOC.match(line):
            place = (loc[1], int(loc[2]), int(loc[3]))
            own = f"{PurePath(files.get(loc[1], '')).name}:{loc[2]}"
            lines = tuple(_PLACE.findall(loc[4] or "")) or (own,)
        elif (label := _LABEL.match(line)) and not bare.startswith(".Ltmp"):
            yield _Line(label[1], "", "", place, lines)
        elif instruction := _INSTRUCTION.match(line):
            operands = (instruction[2] or "").strip()
            yield _Line("", instruction[1], operands, place, lines)


def read_code(text: str) -> Code:
    """Return the reachable code of the kernel in an assembly; addresses count instructions."""
    instructions: list[Instruction] = []
    labels: dict[str, int] = {}
    for line in _lines(text):
        if line.label:
            labels[line.label] = len(instructions)
        else:
            operands = tuple(part.strip() for part in line.operands.split(",") if part.strip())
            instructions.append(
                Instruction(len(instructions), "", line.opcode, operands, line.lines)
            )
    name = re.search(r"^\s*\.amdhsa_kernel (\S+)", text, re.M)
    return _control_flow(name[1] if name else "", instructions, labels)


def _control_flow(name: str, every: Sequence[Instruction], labels: Mapping[str, int]) -> Code:
    jumps = [index for index, one in enumerate(every) if one.name.startswith((*_JUMPS, *_ENDS))]
    starts = sorted({0, *(at for at in labels.values()), *(index + 1 for index in jumps)})
    starts = [start for start in starts if start < len(every)]
    number = {start: block for block, start in enumerate(starts)}
    ends = [*starts[1:], len(every)][: len(starts)]
    edges: list[list[int]] = []
    for end in ends:
        last = every[end - 1]
        targets = (
            [labels[part] for part in last.operands if part in labels]
            if last.name.startswith(_JUMPS)
            else []
        )
        targets += [end] if last.name not in _ENDS else []
        edges.append([number[at] for at in dict.fromkeys(targets) if at in number])
    runs = [every[start:end] for start, end in zip(starts, ends)]
    return reachable_code(name, runs, edges, "gcn")


def access_of(opcode: str) -> tuple[str, str, int] | None:
    """Return space, kind and bytes of a thread's memory instruction; ``None`` for others.

    The space is ``"global"``, ``"shared"`` or ``"local"``, the kind ``"load"``, ``"store"`` or
    ``"atomic"``.
    """
    access = _ACCESS.match(opcode)
    if access is None:
        return None
    space = {"ds": "shared", "scratch": "local"}.get(access["space"], "global")
    kind = {"read": "load", "write": "store"}.get(access["kind"], access["kind"])
    return space, kind, _width(access["rest"])


def _width(rest: str) -> int:
    """Return bytes from ``_dwordx4``, ``2st64_b64``, ``_ushort``, ``_add_f32`` and the like."""
    twice = 2 if rest.startswith("2") else 1
    if dwords := re.search(r"dword(?:x(\d+))?", rest):
        return 4 * int(dwords[1] or 1)
    if bits := re.search(r"_[buif]+(\d+)", rest):
        return max(int(bits[1]) // 8, 1) * twice
    word = next((part for part in rest.split("_") if part in _SIZES), "dword")
    return _SIZES[word]


def vector_widths(text: str) -> dict[tuple[str, int, int, str], int]:
    """Return bytes that a thread's memory instruction moves, by source location.

    As `solkit.adapters.triton_ptx.vector_widths`, whose kinds these are.
    """
    files = {number: PurePath(path).name for number, path in _FILE.findall(text)}
    widths: dict[tuple[str, int, int, str], int] = {}
    for line in _lines(text):
        access = access_of(line.opcode) if line.opcode else None
        if access is None or access[0] != "global":
            continue
        number, row, column = line.place
        kind = "async" if "_lds_" in line.opcode else access[1]
        key = (files.get(number, ""), row, column, kind)
        widths[key] = max(widths.get(key, 0), access[2])
    return widths
