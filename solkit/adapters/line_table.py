"""Read the rows of a DWARF line table, with NVIDIA's opcode for inlined calls.

Sources: DWARF 2 to 5, sections 6.2.4 and 6.2.5; cuda-gdb (gdb/dwarf2/read.c) for the opcode 0x90.
pyelftools reads the same tables, but skips that opcode (decision 40).
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

_END, _SET_ADDRESS, _DEFINE_FILE, _INLINED_CALL = 1, 2, 3, 0x90  # DW_LNE_*
_PATH, _DIRECTORY = 1, 2  # DW_LNCT_*
_STRING, _STRP, _LINE_STRP, _UDATA, _BLOCK = 0x08, 0x0E, 0x1F, 0x0F, 0x09  # DW_FORM_*
_SIZES = {0x0B: 1, 0x05: 2, 0x06: 4, 0x07: 8, 0x1E: 16}
"""Bytes of DW_FORM_data1, data2, data4, data8 and data16."""


@dataclass(frozen=True)
class Sections:
    """Sections that a table is read from.

    Attributes:
        line: ``.debug_line``.
        strings: ``.debug_str``.
        line_strings: ``.debug_line_str``, of DWARF 5.
    """

    line: bytes
    strings: bytes = b""
    line_strings: bytes = b""


@dataclass(frozen=True)
class Row:
    """One row; it holds up to the next one's address.

    Attributes:
        sequence: where in the section the address of its sequence stands, which a relocation may
            complete; -1 if the table gives none.
        address: in bytes.
        file: as named in the table, with its folder; may be empty.
        line: from 1; 0 is no line.
        callers: ``(file, line)`` of each inlined call around it, from the inside out.
        is_end: whether the sequence ends here.
    """

    sequence: int
    address: int
    file: str
    line: int
    callers: tuple[tuple[str, int], ...] = ()
    is_end: bool = False


def read_line_table(sections: Sections) -> Iterator[Row]:
    """Yield the rows of all units and sequences, in the order of the table.

    Raises:
        ValueError: the version is unknown.
        IndexError, struct.error: the table ends early.
    """
    at = 0
    while at < len(sections.line):
        unit = _Unit(sections, at)
        yield from unit.rows()
        at = unit.end


def read_string(data: bytes, at: int) -> str:
    """Return the text up to the next zero byte."""
    return data[at : data.index(b"\0", at)].decode()


class _Unit:
    """One unit: its header, and the program that makes its rows."""

    def __init__(self, sections: Sections, at: int) -> None:
        self.sections, self.data, self.at = sections, sections.line, at
        length = self.read_fixed("<I")
        self.offset = "<I"
        if length == 0xFFFFFFFF:
            self.offset, length = "<Q", self.read_fixed("<Q")
        self.end = self.at + length
        if self.end > len(self.data):
            raise ValueError("a unit of the line table ends beyond it")
        version = self.read_fixed("<H")
        if not 2 <= version <= 5:
            raise ValueError(f"a line table of DWARF {version}; 2 to 5 are known")
        if version == 5:
            self.read_fixed("<H")  # sizes of an address and of a segment's selector
        header = self.read_fixed(self.offset)
        self.start = self.at + header
        self.step = self.read_fixed("<B")
        self.read_fixed(
            "<H" if version > 3 else "<B"
        )  # operations of an instruction, default_is_stmt
        self.base, self.span = self.read_fixed("<b"), self.read_fixed("<B")
        self.operands = [self.read_fixed("<B") for _ in range(self.read_fixed("<B") - 1)]
        self.files = self._described_files() if version == 5 else self._listed_files()

    def read_fixed(self, form: str) -> int:
        (value,) = struct.unpack_from(form, self.data, self.at)[-1:]
        self.at += struct.calcsize(form)
        return int(value)

    def text(self) -> str:
        start, self.at = self.at, self.data.index(b"\0", self.at) + 1
        return self.data[start : self.at - 1].decode()

    def read_unsigned(self) -> int:
        value = shift = 0
        while True:
            byte = self.read_fixed("<B")
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    def read_signed(self) -> int:
        start = self.at
        value = self.read_unsigned()
        bits = 7 * (self.at - start)
        return value - (1 << bits) if value >> (bits - 1) else value

    def _listed_files(self) -> list[str]:
        """DWARF 2 to 4: numbered from 1; folder 0 is the unit's own, which is not named."""
        folders = [""]
        while folder := self.text():
            folders.append(folder)
        files = [""]
        while name := self.text():
            files.append(self._file_path(name, folders))
        return files

    def _file_path(self, name: str, folders: list[str]) -> str:
        folder = folders[self.read_unsigned()]
        self.read_unsigned(), self.read_unsigned()  # time of modification, and size
        return _join_path(folder, name)

    def _described_files(self) -> list[str]:
        """DWARF 5: numbered from 0, each field in a form that the table states."""
        self.folders = [str(entry.get(_PATH, "")) for entry in self._read_entries()]
        named = [(entry.get(_PATH, ""), entry.get(_DIRECTORY, 0)) for entry in self._read_entries()]
        return [_join_path(self.folders[int(folder)], str(name)) for name, folder in named]

    def _read_entries(self) -> Iterator[Mapping[int, str | int]]:
        kinds = [(self.read_unsigned(), self.read_unsigned()) for _ in range(self.read_fixed("<B"))]
        for _ in range(self.read_unsigned()):
            yield {content: self._read_value(form) for content, form in kinds}

    def _read_value(self, form: int) -> str | int:
        if form == _STRING:
            return self.text()
        if form in (_STRP, _LINE_STRP):
            is_line = form == _LINE_STRP
            strings = self.sections.line_strings if is_line else self.sections.strings
            return read_string(strings, self.read_fixed(self.offset))
        if form == _UDATA:
            return self.read_unsigned()
        size = self.read_unsigned() if form == _BLOCK else _SIZES.get(form)
        if size is None:
            raise ValueError(f"a form {form:#x} in the header of a line table")
        self.at += size
        return int.from_bytes(self.data[self.at - size : self.at], "little")

    def rows(self) -> Iterator[Row]:
        """Run the program."""
        self.at = self.start
        rows: list[Row] = []  # a call's context is the number of a row before it, from 1
        while self.at < self.end:
            state = _State(file=1)
            while self.at < self.end and not state.is_over:
                if self._run_opcode(state):
                    rows.append(self._make_row(state, rows))
                    yield rows[-1]

    def _make_row(self, state: _State, rows: list[Row]) -> Row:
        callers: tuple[tuple[str, int], ...] = ()
        if state.context:
            around = rows[state.context - 1]
            callers = ((around.file, around.line), *around.callers)
        file = self.files[state.file] if state.file < len(self.files) else ""
        place = state.sequence, state.address, file, state.line
        return Row(*place, callers, state.is_over)

    def _run_opcode(self, state: _State) -> bool:
        """Run one opcode; gives whether it makes a row."""
        code, first_special = self.read_fixed("<B"), len(self.operands) + 1
        if code >= first_special:
            state.address += (code - first_special) // self.span * self.step
            state.line += self.base + (code - first_special) % self.span
            return True
        if code == 0:
            self._run_extended_opcode(state)
            return state.is_over
        if code == 2:
            state.address += self.read_unsigned() * self.step
        elif code == 3:
            state.line += self.read_signed()
        elif code == 4:
            state.file = self.read_unsigned()
        elif code == 8:  # const_add_pc: as special opcode 255
            state.address += (255 - first_special) // self.span * self.step
        elif code == 9:  # fixed_advance_pc
            state.address += self.read_fixed("<H")
        else:  # copy (1), column, is_stmt, basic_block and later ones
            for _ in range(self.operands[code - 1]):
                self.read_unsigned()
        return code == 1

    def _run_extended_opcode(self, state: _State) -> None:
        """Run an opcode with its length; those unknown are skipped, as DWARF asks."""
        size = self.read_unsigned()
        end = self.at + size
        code = self.read_fixed("<B")
        if code == _END:
            state.is_over = True
        elif code == _SET_ADDRESS:
            state.sequence, state.address = self.at, self.read_fixed("<Q")
        elif code == _DEFINE_FILE:
            self.files.append(self._file_path(self.text(), [""] * 256))
        elif code == _INLINED_CALL:  # the function's name follows
            state.context = self.read_unsigned()
        self.at = end


@dataclass
class _State:
    """The registers of the line program."""

    file: int
    line: int = 1
    address: int = 0
    sequence: int = -1
    context: int = 0
    is_over: bool = False


def _join_path(folder: str, name: str) -> str:
    return f"{folder}/{name}" if folder and not name.startswith("/") else name
