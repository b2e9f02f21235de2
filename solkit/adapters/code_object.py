"""Read what a kernel of an AMD code object uses, from the note that the ROCm loader reads.

The code object is an ELF file. Its note ``NT_AMDGPU_METADATA`` is a map in MessagePack. Source:
LLVM, "User Guide for AMDGPU Backend", Code Object V3 to V5 Metadata.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

_NOTE = 7  # ELF, SHT_NOTE
_METADATA = 32  # NT_AMDGPU_METADATA


class CodeObjectError(Exception):
    """The file is unlike the code objects of the tested compilers."""


@dataclass(frozen=True)
class KernelUsage:
    """Resources of one kernel; registers are of 32 bits.

    Attributes:
        vector_registers: per thread. From gfx90a on these include the accumulation registers.
        accumulation_registers: per thread, of those.
        scalar_registers: per wave.
        vector_spills: registers that did not fit, per thread.
        scratch_bytes: of private memory per thread: spills, and arrays without registers.
    """

    vector_registers: int
    accumulation_registers: int
    scalar_registers: int
    vector_spills: int
    scratch_bytes: int


_FIELDS = {
    "vector_registers": ".vgpr_count",
    "accumulation_registers": ".agpr_count",
    "scalar_registers": ".sgpr_count",
    "vector_spills": ".vgpr_spill_count",
    "scratch_bytes": ".private_segment_fixed_size",
}
_OPTIONAL = frozenset({".agpr_count", ".vgpr_spill_count"})  # 0 if missing


def kernel_usages(code_object: bytes) -> Mapping[str, KernelUsage]:
    """Return what the kernels of a code object use, by name.

    Raises:
        CodeObjectError: the file is no code object, or lacks a figure.
    """
    try:
        metadata = _metadata(code_object)
        return {kernel[".name"]: _usage(kernel) for kernel in metadata["amdhsa.kernels"]}
    except (IndexError, KeyError, StopIteration, TypeError, ValueError, struct.error) as error:
        raise CodeObjectError(f"{type(error).__name__}: {error}") from error


def _usage(kernel: Mapping[str, Any]) -> KernelUsage:
    figures = {
        field: int(kernel.get(key, 0) if key in _OPTIONAL else kernel[key])
        for field, key in _FIELDS.items()
    }
    return KernelUsage(**figures)


def _metadata(code_object: bytes) -> Any:
    for kind, content in _notes(code_object):
        if kind == _METADATA:
            return _Reader(content).value()
    raise ValueError("no AMDGPU metadata")


def _notes(elf: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield type and content of the file's notes; ELF-64, as in the System V ABI."""
    if elf[:5] != b"\x7fELF\x02":
        raise ValueError("no ELF file of 64 bits")
    (offset,) = struct.unpack_from("<Q", elf, 0x28)
    size, count, _ = struct.unpack_from("<HHH", elf, 0x3A)
    for number in range(count):
        _, kind, _, _, start, length, *_ = struct.unpack_from(
            "<IIQQQQII", elf, offset + number * size
        )
        if kind == _NOTE:
            yield from _notes_of_section(elf[start : start + length])


def _notes_of_section(section: bytes) -> Iterator[tuple[int, bytes]]:
    at = 0
    while at < len(section):
        name, length, kind = struct.unpack_from("<III", section, at)
        start = at + 12 + _padded(name)
        yield kind, section[start : start + length]
        at = start + _padded(length)


def _padded(length: int) -> int:
    return -(-length // 4) * 4


_FIXED = {
    **{0xCA: ">f", 0xCB: ">d", 0xCC: ">B", 0xCD: ">H", 0xCE: ">I", 0xCF: ">Q"},
    **{0xD0: ">b", 0xD1: ">h", 0xD2: ">i", 0xD3: ">q"},
}
_SIMPLE = {0xC0: None, 0xC2: False, 0xC3: True}
_LENGTHS = {
    **{0xC4: ("bytes", ">B"), 0xC5: ("bytes", ">H"), 0xC6: ("bytes", ">I")},
    **{0xD9: ("text", ">B"), 0xDA: ("text", ">H"), 0xDB: ("text", ">I")},
    **{0xDC: ("array", ">H"), 0xDD: ("array", ">I"), 0xDE: ("map", ">H"), 0xDF: ("map", ">I")},
}


class _Reader:
    """Reads values of MessagePack; source: github.com/msgpack/msgpack, spec.md."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0

    def value(self) -> Any:
        code = self._number(">B")
        if code < 0x80:
            return code
        if code >= 0xE0:
            return code - 0x100
        if code < 0xC0:
            return self._short(code)
        if code in _SIMPLE:
            return _SIMPLE[code]
        if code in _FIXED:
            return self._number(_FIXED[code])
        kind, form = _LENGTHS[code]
        return self._sized(kind, self._number(form))

    def _short(self, code: int) -> Any:
        if code >= 0xA0:
            return self._sized("text", code & 0x1F)
        return self._sized("array" if code >= 0x90 else "map", code & 0x0F)

    def _sized(self, kind: str, length: int) -> Any:
        if kind == "array":
            return [self.value() for _ in range(length)]
        if kind == "map":
            return {self.value(): self.value() for _ in range(length)}
        content = self.data[self.at : self.at + length]
        self.at += length
        return content.decode() if kind == "text" else content

    def _number(self, form: str) -> Any:
        (number,) = struct.unpack_from(form, self.data, self.at)
        self.at += struct.calcsize(form)
        return number
