"""Integer instructions of PTX against Python's integers."""

from __future__ import annotations

import random

import numpy as np
import pytest

from solkit.analysis.common.ptx_numbers import operation


def signed(value, bits):
    low = value % (1 << bits)
    return low - (1 << bits) if low >> (bits - 1) else low


def kept(value, bits):
    """As a register of so many bits is kept: of 64 as int64, of fewer without a sign."""
    return signed(value, 64) if bits == 64 else value % (1 << bits)


def quotient(a, b):
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


MEANINGS = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul.lo": lambda a, b: a * b,
    "min": min,
    "max": max,
    "and": lambda a, b: a & b,
    "xor": lambda a, b: a ^ b,
    "div": quotient,
    "rem": lambda a, b: a - quotient(a, b) * b,
    "shr": lambda a, b: a >> (b % 64),
    "shl": lambda a, b: a << (b % 64),
}


def applied(opcode, *values):
    name, *modifiers = opcode.split(".")
    compute = operation(name, modifiers)
    assert compute is not None, opcode
    return int(compute(*(np.array([[value]], np.int64) for value in values)).flat[0])


def numbers(bits, count=40):
    chosen = random.Random(bits)
    some = [0, 1, 2, 31, (1 << (bits - 1)) - 1, 1 << (bits - 1), (1 << bits) - 1]
    return some + [chosen.getrandbits(bits) >> chosen.randrange(bits) for _ in range(count)]


@pytest.mark.parametrize("kind", ["s32", "u32", "s64", "u64"])
@pytest.mark.parametrize("name", MEANINGS)
def test_two_operands(name, kind):
    bits, values = int(kind[1:]), numbers(int(kind[1:]))
    for a, b in zip(values, values[3:] + values[:3]):
        b = b % bits if name in ("shr", "shl") else b
        if name in ("div", "rem") and (not b or (kind == "s64" and 1 << 63 in (a, b))):
            continue  # not defined, or its absolute value has no place in an int64
        plain = [signed(v, bits) if kind[0] == "s" else v for v in (a, b)]
        expected = kept(MEANINGS[name](*plain), bits)
        assert applied(f"{name}.{kind}", kept(a, bits), kept(b, bits)) == expected, (a, b)


@pytest.mark.parametrize("kind", ["s32", "u32", "s64", "u64"])
def test_products_of_twice_the_width(kind):
    bits, values = int(kind[1:]), numbers(int(kind[1:]))
    for a, b in zip(values, values[5:] + values[:5]):
        whole = signed(a, bits) * signed(b, bits) if kind[0] == "s" else a * b
        inputs = kept(a, bits), kept(b, bits)
        assert applied(f"mul.hi.{kind}", *inputs) == kept(whole >> bits, bits), inputs
        if bits == 32:
            assert applied(f"mul.wide.{kind}", *inputs) == signed(whole, 64)
            added = applied(f"mad.wide.{kind}", *inputs, -5_000_000_000)
            assert added == signed(whole - 5_000_000_000, 64)


def test_bits_moved_about():
    a, b = 0x89ABCDEF, 0x01234567
    assert applied("shf.l.wrap.b32", a, b, 8) == 0x23456789
    assert applied("shf.r.wrap.b32", a, b, 8) == 0x6789ABCD
    assert applied("prmt.b32", a, b, 0x7410) == 0x0167CDEF
    assert applied("prmt.b32", a, b, 0x000B) == 0xEFEFEFFF  # the sign of byte 3
    assert applied("bfe.u32", a, 4, 8) == 0xDE
    assert applied("bfe.s32", a, 4, 8) == 0xFFFFFFDE
    assert applied("bfi.b32", b, a, 8, 16) == 0x894567EF
    assert applied("lop3.b32", a, b, 0xFF, 0xE8) == (a & b) | (a & 0xFF) | (b & 0xFF)
    assert applied("popc.b32", a) == bin(a).count("1")
    assert applied("cvt.s64.s32", 0xFFFFFFFE) == -2
    assert applied("cvt.u64.u32", 0xFFFFFFFE) == 0xFFFFFFFE
    assert applied("cvt.u16.u32", 0x12345678) == 0x5678


@pytest.mark.parametrize(
    ("opcode", "a", "b", "holds"),
    [
        ("setp.lt.s32", 0xFFFFFFFF, 0, True),
        ("setp.lt.u32", 0xFFFFFFFF, 0, False),
        ("setp.hi.u64", -1, 1, True),
        ("setp.gt.s64", -1, 1, False),
        ("setp.ne.b32", 3, 3, False),
    ],
)
def test_comparisons(opcode, a, b, holds):
    assert applied(opcode, a, b) == holds
    compound = opcode.split(".")
    joined = ".".join([*compound[:2], "and", *compound[2:]])
    assert applied(joined, a, b, 0) == 0
    assert applied(joined, a, b, 1) == holds


@pytest.mark.parametrize("opcode", ["add.f32", "add.cc.u32", "cvt.rzi.s32.f32", "vote.ballot.b32"])
def test_what_is_not_known_is_not_guessed(opcode):
    name, *modifiers = opcode.split(".")
    assert operation(name, modifiers) is None
