"""Read the functions of a cubin, an ELF file.

NVIDIA's tools report the same (`cuobjdump --dump-resource-usage`, `nvdisasm -gi`), but take a
process each; nvdisasm starts in 0.2 s. Sources: cuda-gdb and CuAssembler for the codes of
``.nv.info``; DWARF 2, section 6.2, for the line table.
"""

from __future__ import annotations

import contextlib
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property

__all__ = ["CubinError", "Function", "functions"]

_SYMTAB, _NOBITS = 2, 8  # ELF, sh_type
_REGISTERS, _STACK = 0x2F, 0x12  # EIATTR_REGCOUNT, EIATTR_MIN_STACK_SIZE
_HAS_BYTES = 4  # EIFMT_SVAL


class CubinError(Exception):
    """The file is unlike the cubins of the tested compilers."""


@dataclass(frozen=True)
class Function:
    """One function of a cubin.

    Attributes:
        code: its machine code.
        registers: per thread.
        stack_bytes: per thread; Triton and nvcc report them as spills.
        shared_bytes: declared per block; from sm_90 on including the system's share.
        line_table: of the whole cubin; may be empty.
    """

    code: bytes
    registers: int
    stack_bytes: int
    shared_bytes: int
    line_table: bytes = field(repr=False)

    @cached_property
    def lines(self) -> tuple[tuple[int, str], ...]:
        """``(address, "file:line")`` in rising order; each holds up to the next address.

        Raises:
            CubinError: the cubin has several functions, or the table describes inlined calls.
        """
        with _known_form():
            return tuple(_line_table(self.line_table)) if self.line_table else ()


@dataclass(frozen=True)
class _Section:
    kind: int
    data: bytes
    size: int
    link: int


def functions(cubin: bytes) -> Mapping[str, Function]:
    """The functions of a cubin by name; raises CubinError if its form is unknown."""
    with _known_form():
        sections = dict(_sections(cubin))
        told = dict(_attributes(sections))
        table = sections.get(".debug_line", _Section(0, b"", 0, 0)).data
        found = {}
        for title, text in sections.items():
            if title.startswith(".text."):
                name = title.removeprefix(".text.")
                shared = sections.get(f".nv.shared.{name}", _Section(0, b"", 0, 0)).size
                usage = told[name, _REGISTERS], told.get((name, _STACK), 0)
                found[name] = Function(text.data, *usage, shared, table)
        return found


@contextlib.contextmanager
def _known_form() -> Iterator[None]:
    try:
        yield
    except (IndexError, KeyError, StopIteration, ValueError, struct.error) as error:
        raise CubinError(f"{type(error).__name__}: {error}") from error


def _sections(cubin: bytes) -> Iterator[tuple[str, _Section]]:
    if cubin[:5] != b"\x7fELF\x02":
        raise ValueError("no ELF file of 64 bits")
    (offset,) = struct.unpack_from("<Q", cubin, 0x28)
    size, count, names = struct.unpack_from("<HHH", cubin, 0x3A)
    headers = [struct.unpack_from("<IIQQQQII", cubin, offset + i * size) for i in range(count)]
    strings = headers[names][4]
    for name, kind, _, _, start, length, link, _ in headers:
        data = b"" if kind == _NOBITS else cubin[start : start + length]
        yield _string(cubin, strings + name), _Section(kind, data, length, link)


def _string(data: bytes, at: int) -> str:
    return data[at : data.index(b"\0", at)].decode()


def _attributes(sections: Mapping[str, _Section]) -> Iterator[tuple[tuple[str, int], int]]:
    """The values in ``.nv.info``, by function name and attribute code."""
    every = list(sections.values())
    symbols = next(each for each in every if each.kind == _SYMTAB)
    strings = every[symbols.link].data
    data, at = sections[".nv.info"].data, 0
    while at < len(data):
        form, code, size = struct.unpack_from("<BBH", data, at)
        at += 4
        if form != _HAS_BYTES:
            continue
        if code in (_REGISTERS, _STACK):
            symbol, value = struct.unpack_from("<II", data, at)
            (name,) = struct.unpack_from("<I", symbols.data, 24 * symbol)
            yield (_string(strings, name), code), value
        at += size


# ------------------------------------------------------------------------------ line table


class _Reader:
    """Reads the numbers of a DWARF section in sequence."""

    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def byte(self) -> int:
        self.at += 1
        return self.data[self.at - 1]

    def fixed(self, form: str) -> int:
        (value,) = struct.unpack_from(form, self.data, self.at)
        self.at += struct.calcsize(form)
        return int(value)

    def text(self) -> str:
        found = _string(self.data, self.at)
        self.at += len(found.encode()) + 1
        return found

    def unsigned(self) -> int:
        value = shift = 0
        while True:
            byte = self.byte()
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    def signed(self) -> int:
        start = self.at
        value = self.unsigned()
        bits = 7 * (self.at - start)
        return value - (1 << bits) if value >> (bits - 1) else value


def _line_table(data: bytes) -> Iterator[tuple[int, str]]:
    """The rows of the only unit's only sequence."""
    read = _Reader(data)
    if read.fixed("<I") + 4 != len(data) or read.fixed("<H") != 2:
        raise ValueError("the line table has several units, or is not DWARF 2")
    start = read.fixed("<I") + read.at
    read.byte(), read.byte()  # minimum_instruction_length (1) and default_is_stmt
    base, span = read.fixed("<b"), read.byte()
    operands = [read.byte() for _ in range(read.byte() - 1)]
    folders = [""]
    while folder := read.text():
        folders.append(folder)
    files = [""]
    while name := read.text():
        folder = folders[read.unsigned()]
        files.append(f"{folder}/{name}" if folder else name)
        read.unsigned(), read.unsigned()  # time of modification, and size
    read.at = start
    yield from _rows(read, files, base, span, operands)


def _rows(
    read: _Reader, files: list[str], base: int, span: int, operands: list[int]
) -> Iterator[tuple[int, str]]:
    """Run the line program: DWARF 2, section 6.2.5."""
    address, file, line = 0, 1, 1
    first_special = len(operands) + 1
    while True:
        code = read.byte()
        if code >= first_special:
            address += (code - first_special) // span
            line += base + (code - first_special) % span
        elif code == 0:
            read.unsigned()
            extended = read.byte()
            if extended == 1:  # end_sequence
                return
            if extended != 2:  # set_address; NVIDIA's own opcodes describe inlined calls
                raise ValueError(f"an extended opcode {extended:#x} in a line table")
            address = read.fixed("<Q")
            continue
        elif code == 2:
            address += read.unsigned()
            continue
        elif code == 3:
            line += read.signed()
            continue
        elif code == 4:
            file = read.unsigned()
            continue
        elif code == 8:  # const_add_pc: as special opcode 255
            address += (255 - first_special) // span
            continue
        elif code != 1:  # column, is_stmt, basic_block
            for _ in range(operands[code - 1]):
                read.unsigned()
            continue
        yield address, f"{files[file]}:{line}"
