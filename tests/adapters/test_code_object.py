"""The reader of AMD's code objects, on files built here byte by byte."""

import struct

import pytest

from solkit.adapters.code_object import CodeObjectError, kernel_usages

FIGURES = {
    ".vgpr_count": 206,
    ".agpr_count": 4,
    ".sgpr_count": 32,
    ".vgpr_spill_count": 300,
    ".sgpr_spill_count": 1,
    ".private_segment_fixed_size": 70_000,
    ".group_segment_fixed_size": 0,
    ".wavefront_size": 64,
}


def packed(value):
    """MessagePack, in the shortest form of each."""
    if isinstance(value, bool):
        return b"\xc3" if value else b"\xc2"
    if isinstance(value, dict):
        body = b"".join(packed(part) for pair in value.items() for part in pair)
        size = len(value)
        return (bytes([0x80 | size]) if size < 16 else struct.pack(">BH", 0xDE, size)) + body
    if isinstance(value, list):
        return bytes([0x90 | len(value)]) + b"".join(map(packed, value))
    if isinstance(value, str):
        head = bytes([0xA0 | len(value)]) if len(value) < 32 else bytes([0xD9, len(value)])
        return head + value.encode()
    if value < 128:
        return bytes([value])
    for code, form, most in ((0xCC, ">B", 2**8), (0xCD, ">H", 2**16), (0xCE, ">I", 2**32)):
        if value < most:
            return bytes([code]) + struct.pack(form, value)
    raise ValueError(value)


def elf(*notes):
    """A file of 64 bits with a section of notes, each a type and its content."""
    body = b""
    for kind, content in notes:
        padding = -len(content) % 4
        body += (
            struct.pack("<III", 7, len(content), kind) + b"AMDGPU\0\0" + content + bytes(padding)
        )
    header = bytearray(64)
    header[:5] = b"\x7fELF\x02"
    struct.pack_into("<Q", header, 0x28, 64 + len(body))
    struct.pack_into("<HHH", header, 0x3A, 64, 2, 0)
    empty = bytes(64)
    section = struct.pack("<IIQQQQIIQQ", 0, 7, 0, 0, 64, len(body), 0, 0, 4, 0)
    return bytes(header) + body + empty + section


def metadata(*kernels):
    return packed({"amdhsa.version": [1, 2], "amdhsa.kernels": list(kernels)})


def test_all_figures_of_each_kernel_are_read():
    long_name = "a_kernel_whose_name_has_more_than_32_characters"
    others = {**FIGURES, ".vgpr_count": 8, ".uses_dynamic_stack": False, ".args": [{".size": 8}]}
    file = elf(
        (1, b"abc"), (32, metadata({".name": "k", **FIGURES}, {".name": long_name, **others}))
    )
    usages = kernel_usages(file)
    assert list(usages) == ["k", long_name]
    usage = usages["k"]
    assert (usage.vector_registers, usage.accumulation_registers) == (206, 4)
    assert (usage.vector_spills, usage.scalar_registers) == (300, 32)
    assert usage.scratch_bytes == 70_000
    assert usages[long_name].vector_registers == 8


def test_gpus_without_accumulation_registers_have_none():
    figures = {name: figure for name, figure in FIGURES.items() if name != ".agpr_count"}
    (usage,) = kernel_usages(elf((32, metadata({".name": "k", **figures})))).values()
    assert usage.accumulation_registers == 0


@pytest.mark.parametrize(
    "file",
    [
        b"",
        b"\x7fELF\x01" + bytes(80),
        elf(),
        elf((1, b"abc")),
        elf((32, metadata({".name": "k"}))),
        elf((32, metadata({".name": "k", **FIGURES})[:40])),
    ],
)
def test_a_file_of_another_form_is_refused(file):
    with pytest.raises(CodeObjectError):
        kernel_usages(file)
