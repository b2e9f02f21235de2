"""Read the functions of a cubin, an ELF file.

NVIDIA's tools report the same (`cuobjdump --dump-resource-usage`, `nvdisasm -gi`), but take a
process each; nvdisasm starts in 0.2 s. Sources: cuda-gdb and CuAssembler for the codes of
``.nv.info``; the System V ABI for ELF.
"""

from __future__ import annotations

import contextlib
import math
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from solkit.adapters import line_table
from solkit.adapters.line_table import Row, Sections, read_string
from solkit.core import Device

_SYMTAB, _RELA, _NOBITS = 2, 4, 8  # ELF, sh_type
_REGISTERS, _STACK = 0x2F, 0x12  # EIATTR_REGCOUNT, EIATTR_MIN_STACK_SIZE
_BRANCHES = 0x34  # EIATTR_INDIRECT_BRANCH_TARGETS
_MOST_THREADS, _THREADS = 0x05, 0x10  # EIATTR_MAX_THREADS, EIATTR_REQNTID
_CLUSTER = 0x3D  # EIATTR_CTA_PER_CLUSTER
_PARAMETERS: Mapping[int, Callable[[int], int]] = {
    0x17: lambda packed: packed >> 18,
    0x45: lambda packed: packed & 0xFFFF,
}
"""Sizes of parameters: EIATTR_KPARAM_INFO has 14 bits above others, its second version below."""
_NEW_FLAGS = 8  # EI_ABIVERSION
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
        tables: of the cubin.
        name: as linked.
        branch_targets: the addresses that an indirect branch may go to, by its own.
        threads: of a block, if it must have so many; else ``None``.
        most_threads: that a block may have, if the code says it.
        cluster: blocks of a cluster, if it must have so many.
        parameters: offset and size of each in bytes, in order.
    """

    code: bytes
    registers: int
    stack_bytes: int
    shared_bytes: int
    tables: Tables = field(repr=False)
    name: str
    branch_targets: Mapping[int, tuple[int, ...]] = field(default_factory=dict)
    threads: tuple[int, int, int] | None = None
    most_threads: int | None = None
    cluster: tuple[int, int, int] | None = None
    parameters: tuple[tuple[int, int], ...] = ()

    def static_shared_bytes(self, device: Device) -> int:
        """Return what the kernel declares per block: from sm_90 on without the system's share.

        Checked against ``nvcc -Xptxas -v``, which does not add it.
        """
        counted = device.compute_capability >= (9, 0)
        own = device.limits.reserved_shared_per_block_bytes
        return max(self.shared_bytes - counted * own, 0)

    @cached_property
    def lines(self) -> tuple[tuple[int, tuple[str, ...]], ...]:
        """``(address, places)`` in rising order; each holds up to the next address.

        Places are ``"file:line"`` of the source, then of each inlined call around it.

        Raises:
            CubinError: the form of the table is unknown.
        """
        rows = self.tables.of(".debug_line", self.name)
        return tuple((row.address, _source_places(row)) for row in rows)

    @cached_property
    def ptx_lines(self) -> tuple[tuple[int, int], ...]:
        """``(address, line of the PTX)`` likewise; empty if the compiler wrote none."""
        rows = self.tables.of(".nv_debug_line_sass", self.name)
        return tuple((row.address, row.line) for row in rows)


@dataclass(frozen=True, eq=False)
class Tables:
    """The line tables of a cubin.

    Attributes:
        sections: all, by name.
        functions: the number of functions.
    """

    sections: Mapping[str, _Section]
    functions: int

    def of(self, section: str, function: str) -> list[Row]:
        """Return one function's rows, by address; raise `CubinError` if their form is unknown."""
        with _known_form():
            rows = self._parse_rows(section)
            owners = dict(_relocations(self.sections, section))
            if self.functions > 1 and any(row.sequence not in owners for row in rows):
                raise ValueError(f"{section} does not say which function its rows are of")
            own = [r for r in rows if owners.get(r.sequence, function) == function and not r.is_end]
            return sorted(own, key=lambda row: row.address)  # stable: the last of equals holds

    def _parse_rows(self, section: str) -> list[Row]:
        empty = _Section(0, b"", 0, 0)
        names = (section, ".debug_str", ".debug_line_str")
        contents = Sections(*(self.sections.get(name, empty).data for name in names))
        return list(line_table.read_line_table(contents))


def _source_places(row: Row) -> tuple[str, ...]:
    return tuple(f"{file}:{line}" for file, line in ((row.file, row.line), *row.callers))


@dataclass(frozen=True)
class _Section:
    kind: int
    data: bytes
    size: int
    link: int


def parse_functions(cubin: bytes) -> Mapping[str, Function]:
    """Return the functions of a cubin by name; raises CubinError if its form is unknown."""
    with _known_form():
        sections = dict(_parse_sections(cubin))
        attributes = dict(_attributes(sections))
        tables = Tables(sections, sum(title.startswith(".text.") for title in sections))
        functions_by_name = {}
        for title, text in sections.items():
            if title.startswith(".text."):
                name = title.removeprefix(".text.")
                shared = sections.get(f".nv.shared.{name}", _Section(0, b"", 0, 0)).size
                usage = attributes[name, _REGISTERS], attributes.get((name, _STACK), 0)
                own = list(_own_attributes(sections.get(f".nv.info.{name}")))
                functions_by_name[name] = Function(
                    text.data, *usage, shared, tables, name, *_launch_attributes(own)
                )
        return functions_by_name


def architecture(binary: bytes) -> int:
    """Return the architecture that an ELF file is for, such as 90; 0 if it does not say.

    Its flags have it in the second byte since the eighth version of the ABI, before in the first.
    """
    if binary[:4] != b"\x7fELF" or len(binary) < 0x34:
        return 0
    (flags,) = struct.unpack_from("<I", binary, 0x30)
    return int(flags >> 8 & 0xFF if binary[8] >= _NEW_FLAGS else flags & 0xFF)


@contextlib.contextmanager
def _known_form() -> Iterator[None]:
    try:
        yield
    except (IndexError, KeyError, StopIteration, ValueError, struct.error) as error:
        raise CubinError(f"{type(error).__name__}: {error}") from error


def _parse_sections(cubin: bytes) -> Iterator[tuple[str, _Section]]:
    if cubin[:5] != b"\x7fELF\x02":
        raise ValueError("no ELF file of 64 bits")
    (offset,) = struct.unpack_from("<Q", cubin, 0x28)
    size, count, names = struct.unpack_from("<HHH", cubin, 0x3A)
    headers = [struct.unpack_from("<IIQQQQII", cubin, offset + i * size) for i in range(count)]
    strings = headers[names][4]
    for name, kind, _, _, start, length, link, _ in headers:
        data = b"" if kind == _NOBITS else cubin[start : start + length]
        yield read_string(cubin, strings + name), _Section(kind, data, length, link)


def _relocations(sections: Mapping[str, _Section], target: str) -> Iterator[tuple[int, str]]:
    """Yield the function whose address is put at each offset of a section."""
    every = list(sections.items())
    for title in (f".rela{target}", f".rel{target}"):
        if title not in sections:
            continue
        section = sections[title]
        symbols = every[section.link][1]
        names = every[symbols.link][1].data
        size = 24 if section.kind == _RELA else 16
        for at in range(0, len(section.data) // size * size, size):
            offset, info = struct.unpack_from("<QQ", section.data, at)
            name, _, _, home = struct.unpack_from("<IBBH", symbols.data, 24 * (info >> 32))
            own = read_string(names, name)  # a section's symbol has no name
            yield offset, own or every[home][0].removeprefix(".text.")


def _attributes(sections: Mapping[str, _Section]) -> Iterator[tuple[tuple[str, int], int]]:
    """Yield the values in ``.nv.info``, by function name and attribute code."""
    every = list(sections.values())
    symbols = next(section for section in every if section.kind == _SYMTAB)
    strings = every[symbols.link].data
    for code, data in _coded_attributes(sections[".nv.info"].data):
        if code in (_REGISTERS, _STACK):
            symbol, value = struct.unpack_from("<II", data)
            (name,) = struct.unpack_from("<I", symbols.data, 24 * symbol)
            yield (read_string(strings, name), code), value


def _coded_attributes(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield the attributes of an ``.nv.info`` that have bytes: code and bytes."""
    at = 0
    while at < len(data):
        form, code, size = struct.unpack_from("<BBH", data, at)
        at += 4
        if form == _HAS_BYTES:
            yield code, data[at : at + size]
            at += size


def _own_attributes(info: _Section | None) -> Iterator[tuple[int, bytes]]:
    return _coded_attributes(info.data if info else b"")


def _launch_attributes(own: Sequence[tuple[int, bytes]]) -> tuple[Any, ...]:
    """Return the fields of a `Function` that its own ``.nv.info`` has."""
    by_code = dict(own)
    most = by_code.get(_MOST_THREADS)
    return (
        dict(_indirect_branches(own)),
        _three(by_code.get(_THREADS)),
        math.prod(struct.unpack_from("<III", most)) if most else None,
        _three(by_code.get(_CLUSTER)),
        tuple(sorted(_parameters(own))),
    )


def _three(data: bytes | None) -> tuple[int, int, int] | None:
    if data is None:
        return None
    x, y, z = struct.unpack_from("<III", data)
    return x, y, z


def _parameters(own: Sequence[tuple[int, bytes]]) -> Iterator[tuple[int, int]]:
    """Yield offset and size of each parameter: index, ordinal, offset, then the packed size."""
    for code, data in own:
        if code in _PARAMETERS:
            _, _, offset, packed = struct.unpack_from("<IHHI", data)
            yield offset, _PARAMETERS[code](packed)


def _indirect_branches(own: Sequence[tuple[int, bytes]]) -> Iterator[tuple[int, tuple[int, ...]]]:
    """Yield the indirect branches of a function: address, two halves of 0, count, targets."""
    for code, data in own:
        at = 0
        while code == _BRANCHES and at < len(data):
            address, _, _, count = struct.unpack_from("<IHHI", data, at)
            yield address, struct.unpack_from(f"<{count}I", data, at + 12)
            at += 12 + 4 * count
