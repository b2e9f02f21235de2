"""Rows of line tables: DWARF of several versions, units and sequences, beside objdump's."""

from __future__ import annotations

import re
import shutil
import struct
import subprocess

import pytest

from solkit.adapters.line_table import Row, Sections, read_line_table

SOURCE = """
static inline int twice(int a) { return a * 2; }
static __attribute__((noinline, section(".text.other"))) int other(int a) {
  int b = twice(a);
  for (int i = 0; i < a; ++i)
    b += i;
  return b;
}
int first(int a) {

  if (a)
    return other(a);
  return 3;
}
"""
COPY, END, ADDRESS, INLINED = b"\x01", b"\x00\x01\x01", b"\x00\x09\x02", b"\x00\x03\x90"


@pytest.mark.skipif(not shutil.which("gcc"), reason="no C compiler")
@pytest.mark.parametrize("version", [2, 3, 4, 5])
def test_rows_are_those_that_objdump_shows(version, tmp_path):
    for name in "ab":
        (tmp_path / f"{name}.c").write_text(SOURCE.replace("first", f"first_{name}"))
        flags = ["-O1", f"-gdwarf-{version}", "-gno-as-loc-support", "-fno-pie", "-fno-builtin"]
        subprocess.run(["gcc", *flags, "-c", f"{name}.c"], check=True, cwd=tmp_path)
    subprocess.run(["ld", "-e0", "-o", "ab", "a.o", "b.o"], check=True, cwd=tmp_path)
    sections = Sections(*(section(tmp_path / "ab", name) for name in NAMES))
    shown = subprocess.run(
        ["objdump", "--dwarf=decodedline", str(tmp_path / "ab")],
        check=True, capture_output=True, text=True,
    ).stdout  # fmt: skip
    expected = re.findall(r"^([ab]\.c)\s+(\d+|-)\s+(0x[0-9a-f]+|0)", shown, re.M)
    pairs = [
        (row.file.rpartition("/")[2], "-" if row.is_end else str(row.line), row.address)
        for row in read_line_table(sections)
    ]
    assert pairs == [(file, line, int(address, 16)) for file, line, address in expected]
    assert len({row.sequence for row in read_line_table(sections)}) > 1


NAMES = (".debug_line", ".debug_str", ".debug_line_str")


def section(path, name):
    """The bytes of a section, empty if the file has none."""
    out = path.with_suffix(name)
    subprocess.run(["objcopy", "-O", "binary", f"--only-section={name}", path, out], check=True)
    flags = ["--set-section-flags", f"{name}=alloc"]
    subprocess.run(["objcopy", "-O", "binary", f"-j{name}", *flags, path, out], check=True)
    return out.read_bytes()


def table(*program, version=2):
    """A unit of NVIDIA's: two files in folder ``d``, and steps of one byte."""
    files = b"d\0\0" + b"a.py\0\1\0\0" + b"b.py\0\1\0\0" + b"\0"
    header = bytes([1, 1, 0xFB, 14, 10, 0, 1, 1, 1, 1, 0, 0, 0, 1]) + files
    unit = struct.pack("<HI", version, len(header)) + header + b"".join(program)
    return struct.pack("<I", len(unit)) + unit


def at(address):
    return ADDRESS + struct.pack("<Q", address)


def line(step):
    return b"\x03" + bytes([step & 0x7F])


def test_inlined_calls_name_their_callers_from_the_inside_out():
    program = [
        at(0), line(9), COPY,  # row 1: a.py:10
        b"\x04\x02", INLINED + b"\x01\x00", line(20), COPY,  # row 2: b.py:30 in row 1
        INLINED + b"\x02\x00", line(-5), b"\x02\x10", COPY,  # row 3: b.py:25 in row 2
        b"\x04\x01", INLINED + b"\x00\x00", line(-14), b"\x02\x10", COPY,  # row 4: a.py:11
        END,
    ]  # fmt: skip
    rows = list(read_line_table(Sections(table(*program))))
    assert [(row.file, row.line, row.address) for row in rows[:4]] == [
        ("d/a.py", 10, 0), ("d/b.py", 30, 0), ("d/b.py", 25, 16), ("d/a.py", 11, 32),
    ]  # fmt: skip
    assert [row.callers for row in rows[:4]] == [
        (), (("d/a.py", 10),), (("d/b.py", 30), ("d/a.py", 10)), (),
    ]  # fmt: skip


def test_unknown_extended_opcodes_are_skipped_and_units_follow_each_other():
    odd = b"\x00\x04\x91\x07\x08\x09"
    first, second = table(at(16), odd, COPY, END), table(at(64), line(4), COPY, END)
    rows = [row for row in read_line_table(Sections(first + second)) if not row.is_end]
    start = len(first) - len(COPY + END + odd) - 8
    assert rows[0] == Row(start, 16, "d/a.py", 1)
    assert (rows[1].address, rows[1].line) == (64, 5)


def test_a_version_that_is_not_known_is_an_error():
    with pytest.raises(ValueError, match="DWARF 6"):
        list(read_line_table(Sections(table(END, version=6))))
