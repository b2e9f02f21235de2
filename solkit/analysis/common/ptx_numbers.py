"""Integer arithmetic of PTX, on arrays of int64.

A number of fewer than 64 bits is kept unsigned, like a register's bits. Source: PTX ISA 8.7,
"Integer Arithmetic Instructions" and those of comparison, logic, shift, data movement and
conversion.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]

_TYPE = re.compile(r"[busf](\d+)$")
_FLOATING = re.compile(r"b?f\d+(x2)?|tf32|e\dm\d(x2)?")


def as_bits(values: Array, bits: int, signed: bool) -> Array:
    """Return numbers in so many bits; those of 64 are unchanged."""
    if bits >= 64:
        return values
    low = values & ((1 << bits) - 1)
    if not signed:
        return low
    half = 1 << (bits - 1)
    result: Array = ((low + half) & ((1 << bits) - 1)) - half
    return result


def type_of(modifiers: Sequence[str]) -> tuple[int, bool] | None:
    """Return bits of the operands, and whether they are signed; ``None`` for floating point."""
    if any(map(_FLOATING.fullmatch, modifiers)):
        return None
    kinds = [modifier for modifier in modifiers if _TYPE.fullmatch(modifier) or modifier == "pred"]
    kind = kinds[-1] if kinds else "b32"
    return (1, False) if kind == "pred" else (int(kind[1:]), kind[0] == "s")


def result_bits(name: str, modifiers: Sequence[str], bits: int) -> int:
    """Return bits of the result of an instruction with operands of so many bits."""
    if name == "cvt":
        first = next((modifier for modifier in modifiers if _TYPE.fullmatch(modifier)), "b32")
        return int(first[1:])
    if name in ("setp", "isspacep"):
        return 1
    if name in ("popc", "clz", "bfind"):
        return 32
    return 2 * bits if "wide" in modifiers else bits


def operation(name: str, modifiers: Sequence[str]) -> Callable[..., Array] | None:
    """Return a function that computes an instruction; ``None`` if unknown here."""
    return _operation(name, tuple(modifiers))


@functools.lru_cache(maxsize=1024)
def _operation(name: str, modifiers: tuple[str, ...]) -> Callable[..., Array] | None:
    _, compute = OPERATIONS.get(name, (0, None))
    kind = type_of(modifiers)
    if compute is None or kind is None or {"cc", "sat"} & set(modifiers):
        return None
    bits, signed = kind
    result = result_bits(name, modifiers, bits)
    narrow = signed and bits < 64
    wide = 2 if "wide" in modifiers else 4  # what is added to a wide product is wide itself

    def apply(*values: Array) -> Array:
        if narrow:
            signs = tuple(as_bits(value, bits, signed=True) for value in values[:wide])
            values = signs + values[wide:]
        return as_bits(compute(modifiers, *values), result, signed=False)

    return apply


def _unsigned64(kinds: Sequence[str]) -> bool:
    return bool({"u64", "b64"} & set(kinds))


def _compared(kinds: Sequence[str], a: Array, b: Array, other: Array | None = None) -> Array:
    if _unsigned64(kinds) and kinds[0] not in ("eq", "ne"):
        a, b = a.view(np.uint64), b.view(np.uint64)
    compared: Array = COMPARISONS[kinds[0]](a, b).astype(np.int64)
    if other is None:
        return compared
    joined: Array = {"and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor}[kinds[1]](
        compared, other
    )
    return joined


def _is_less_than(kinds: Sequence[str], a: Array, b: Array) -> Array:
    if _unsigned64(kinds):
        a, b = a.view(np.uint64), b.view(np.uint64)
    return np.less(a, b)


def _extracted_field(kinds: Sequence[str], a: Array, start: Array, length: Array) -> Array:
    field = (a >> start) & ((1 << length) - 1)
    signed: Array = field - ((field >> (length - 1)) << length)
    return signed if kinds[0][0] == "s" else field


def _inserted(_: Sequence[str], a: Array, b: Array, start: Array, length: Array) -> Array:
    mask: Array = ((1 << np.minimum(length, 63)) - 1) << start
    return (b & ~mask) | ((a << start) & mask)


def _looked_up(_: Sequence[str], a: Array, b: Array, c: Array, table: Array) -> Array:
    """``lop3``: bit i of the table is the result where a, b and c are the bits of i."""
    result = np.zeros_like(a | b | c)
    for i in range(8):
        if int(table.flat[0]) >> i & 1:
            result |= (a if i & 4 else ~a) & (b if i & 2 else ~b) & (c if i & 1 else ~c)
    return result


def _integer_product(kinds: Sequence[str], a: Array, b: Array) -> Array:
    if "hi" not in kinds:
        return a * b
    bits, signed = type_of(kinds) or (32, False)
    if bits < 64:
        wide = a * b if signed or bits < 32 else (a.view(np.uint64) * b.view(np.uint64))
        high: Array = (wide >> wide.dtype.type(bits)).astype(np.int64)
        return high
    mask = (1 << 32) - 1
    low_a, high_a, low_b, high_b = a & mask, a >> 32, b & mask, b >> 32
    if not signed:
        high_a, high_b = high_a & mask, high_b & mask
    carried = low_a.view(np.uint64) * low_b.view(np.uint64) >> np.uint64(32)
    middle = high_a * low_b + carried.astype(np.int64)
    upper: Array = high_a * high_b + (middle >> 32)
    lower: Array = low_a * high_b + (middle & mask)
    upper += lower >> 32
    return upper


def _multiplied_and_added(kinds: Sequence[str], a: Array, b: Array, c: Array) -> Array:
    return _integer_product(kinds, a, b) + c


def _shifted_right(kinds: Sequence[str], a: Array, by: Array) -> Array:
    by = np.minimum(by & 0xFFFFFFFF, 63)
    if not _unsigned64(kinds):
        return a >> by
    shifted: Array = (a.view(np.uint64) >> by.astype(np.uint64)).view(np.int64)
    return shifted


def _shifted_left(kinds: Sequence[str], a: Array, by: Array) -> Array:
    bits, _ = type_of(kinds) or (32, False)
    by = by & 0xFFFFFFFF
    return np.where(by < bits, a << np.minimum(by, 63), 0)


def _funnel_shifted(kinds: Sequence[str], low: Array, high: Array, by: Array) -> Array:
    """``shf``: 32 bits of two registers shifted together."""
    by = np.minimum(by, 32) if "clamp" in kinds else by & 31
    both = (high << 32) | low
    if kinds[0] == "l":
        shifted: Array = ((both << by) >> 32) & 0xFFFFFFFF
        return shifted
    return both >> by & 0xFFFFFFFF


def _quotient(kinds: Sequence[str], a: Array, b: Array) -> Array:
    if _unsigned64(kinds):
        quotient: Array = (a.view(np.uint64) // np.maximum(b.view(np.uint64), 1)).view(np.int64)
        return quotient
    divisor = np.where(b == 0, 1, b)
    whole = np.abs(a) // np.abs(divisor)
    return np.where((a < 0) ^ (divisor < 0), -whole, whole)


def _remainder(kinds: Sequence[str], a: Array, b: Array) -> Array:
    multiple: Array = _quotient(kinds, a, b) * b
    return a - multiple


def _permuted(_: Sequence[str], a: Array, b: Array, chosen: Array) -> Array:
    """``prmt``: four bytes, each chosen out of eight by four bits."""
    both = (b << 32) | a
    permuted = np.zeros_like(both | chosen)
    for i in range(4):
        which = chosen >> (4 * i)
        byte = both >> (8 * (which & 7)) & 0xFF
        sign = np.where(byte >> 7, 0xFF, 0)
        permuted = permuted | np.where(which & 8, sign, byte) << (8 * i)
    return permuted


def _set_bit_count(_: Sequence[str], a: Array) -> Array:
    bits = np.arange(64)
    counts: Array = (a[..., None] >> bits & 1).sum(-1)
    return counts


COMPARISONS: Mapping[str, Callable[[Array, Array], Array]] = {
    **{"eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal},
    **{"gt": np.greater, "ge": np.greater_equal, "lo": np.less, "ls": np.less_equal},
    **{"hi": np.greater, "hs": np.greater_equal},
}
OPERATIONS: Mapping[str, tuple[int, Callable[..., Array]]] = {
    **dict.fromkeys(("mov", "cvt", "cvta"), (1, lambda _, a: a)),
    "not": (1, lambda kinds, a: 1 - a if "pred" in kinds else ~a),
    "neg": (1, lambda _, a: -a),
    "abs": (1, lambda _, a: np.abs(a)),
    "popc": (1, _set_bit_count),
    "add": (2, lambda _, a, b: a + b),
    "sub": (2, lambda _, a, b: a - b),
    "mul": (2, _integer_product),
    "mul24": (2, lambda _, a, b: a * b),
    "mad": (3, _multiplied_and_added),
    "div": (2, _quotient),
    "rem": (2, _remainder),
    "and": (2, lambda _, a, b: a & b),
    "or": (2, lambda _, a, b: a | b),
    "xor": (2, lambda _, a, b: a ^ b),
    "shl": (2, _shifted_left),
    "shr": (2, _shifted_right),
    "shf": (3, _funnel_shifted),
    "prmt": (3, _permuted),
    "min": (2, lambda kinds, a, b: np.where(_is_less_than(kinds, a, b), a, b)),
    "max": (2, lambda kinds, a, b: np.where(_is_less_than(kinds, a, b), b, a)),
    "setp": (2, _compared),
    "selp": (3, lambda _, a, b, chosen: np.where(chosen != 0, a, b)),
    "bfe": (3, _extracted_field),
    "bfi": (4, _inserted),
    "lop3": (4, _looked_up),
}
"""Operands and meaning."""
