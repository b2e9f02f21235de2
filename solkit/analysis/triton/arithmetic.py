"""The arithmetic of the IR operations that addresses derive from.

Values are arrays as in `solkit.analysis.triton.ttgir_interpreter`. With *corners*, a tensor's axis
has only the first, the middle and the last index.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from solkit.adapters.triton_ir import Operation, TensorType, element_bits
from solkit.analysis.interpreter.values import Array

Value = Any
"""An array, or ``None`` if unknown."""

_PROBES = 3
"""Indices of a range that corners keep."""


def scalar_value(number: int) -> Array:
    """Return a number that all programs have in common."""
    return np.array([number], np.int64)


def along_programs(numbers: Array, like: Array) -> Array:
    """[programs] as [programs, 1, ...] of the rank of `like`."""
    return numbers.reshape(-1, *(1,) * (like.ndim - 1))


def aligned_ranks(values: Sequence[Array]) -> Sequence[Array]:
    """Return values of the same rank: a scalar gets that of the tensor beside it."""
    ranks = {value.ndim for value in values}
    if len(ranks) == 1:
        return values
    rank = max(ranks)
    return [value.reshape(value.shape + (1,) * (rank - value.ndim)) for value in values]


def choose_by_program(where: Array, new: Value, old: Value, both: bool = True) -> Value:
    """Per program: `new` where chosen. A missing side was not run."""
    if not both:
        return old if new is None else new
    if new is None or old is None or new is old or not isinstance(new, np.ndarray) or where.all():
        return new
    new, old = aligned_ranks([new, old])
    return np.where(along_programs(where, new), new, old)


def element_bytes(kind: TensorType) -> int:
    """Count bytes of one element of a tensor or of what a pointer points to."""
    bits = kind.pointee_bits if kind.element.startswith("!tt.ptr") else element_bits(kind.element)
    return max(bits // 8, 1)


# ------------------------------------------------------------------------------------- constants


def constant(operation: Operation) -> Value:
    """``arith.constant``, if it is an integer or a flag, or a tensor of one."""
    match = re.match(r"(?:dense<)?(-?\d+|true|false)>?(?:\s|$|,|\{)", operation.text + " ")
    if match is None:
        return None
    number = {"true": 1, "false": 0}.get(match.group(1))
    kind = operation.result_type
    value = int(match.group(1)) if number is None else number
    array = np.full((1,) * (len(kind.shape) + 1), value, np.int64)
    return array.astype(bool) if kind.element == "i1" else array


def make_range(operation: Operation, corners: bool) -> Array:
    """``tt.make_range``."""
    start, end = operation.attribute("start") or 0, operation.attribute("end") or 0
    return start + (corner_places(end - start) if corners else np.arange(end - start))[None]


def corner_places(size: int) -> Array:
    """Return the indices of an axis that corners keep."""
    return np.array([0, size // 2, size - 1]) if size > 2 else np.arange(size)


def cornered(value: Array) -> Array:
    """Return the corners of a whole tensor."""
    for axis, size in enumerate(value.shape[1:], start=1):
        if size > _PROBES:
            value = value.take(corner_places(size), axis)
    return value


# ------------------------------------------------------------------------------------ arithmetic


def _divide_towards_zero(a: Array, b: Array) -> Array:
    """Divide, rounded towards zero as the hardware does; anything over 0 is itself."""
    quotient = np.abs(a) // np.maximum(np.abs(b), 1)
    return np.where((a < 0) ^ (b < 0), -quotient, quotient)


def _remainder(a: Array, b: Array) -> Array:
    remainder: Array = a - b * _divide_towards_zero(a, b)
    return remainder


def _logical_operation(on_integers: Callable[..., Array], on_booleans: Callable[..., Array]) -> Any:
    def apply(a: Array, b: Array) -> Array:
        return on_booleans(a, b) if a.dtype == bool and b.dtype == bool else on_integers(a, b)

    return apply


def _bounded_shift(operation: Callable[..., Array]) -> Any:
    return lambda a, b: operation(a, np.clip(b, 0, 63))


ARITHMETIC: Mapping[str, Callable[..., Array]] = {
    "arith.addi": lambda a, b: a + b if a.dtype != bool else a ^ b,
    "arith.subi": lambda a, b: a - b,
    "arith.muli": lambda a, b: a * b if a.dtype != bool else a & b,
    "arith.divsi": _divide_towards_zero,
    "arith.divui": _divide_towards_zero,
    "arith.ceildivsi": lambda a, b: -((-a) // np.maximum(b, 1)),
    "arith.ceildivui": lambda a, b: -((-a) // np.maximum(b, 1)),
    "arith.floordivsi": lambda a, b: a // np.maximum(b, 1),
    "arith.remsi": _remainder,
    "arith.remui": _remainder,
    "arith.minsi": np.minimum,
    "arith.minui": np.minimum,
    "arith.maxsi": np.maximum,
    "arith.maxui": np.maximum,
    "arith.andi": _logical_operation(np.bitwise_and, np.logical_and),
    "arith.ori": _logical_operation(np.bitwise_or, np.logical_or),
    "arith.xori": _logical_operation(np.bitwise_xor, np.logical_xor),
    "arith.shli": _bounded_shift(np.left_shift),
    "arith.shrsi": _bounded_shift(np.right_shift),
    "arith.shrui": _bounded_shift(np.right_shift),
    "arith.extsi": lambda a: -a.astype(np.int64) if a.dtype == bool else a,
    "arith.extui": lambda a: a.astype(np.int64),
    "arith.trunci": lambda a: a,
    "arith.index_cast": lambda a: a,
}
"""By operation; see `integer_operation`."""

PASSED_ON = {"ttg.convert_layout", "tt.bitcast", "tt.int_to_ptr", "tt.ptr_to_int"}
"""Operations that give what they are given."""

_UNSIGNED = {"divui", "ceildivui", "remui", "minui", "maxui", "shrui", "extui", "index_castui"}
_GROWING = {"arith.addi", "arith.subi", "arith.muli", "arith.shli", "arith.trunci"}


def integer_operation(operation: Operation) -> Callable[..., Array]:
    """Integer arithmetic in as many bits as the operands have, kept as signed numbers."""
    name, kind = operation.name, operation.result_type.element
    compute, bits = ARITHMETIC[name], element_bits(operation.all_types[0].element)
    unsigned = name.removeprefix("arith.") in _UNSIGNED
    flag = name == "arith.trunci" and kind == "i1"
    kept = element_bits(kind) if name in _GROWING else 64

    def apply(*operands: Array) -> Array:
        values = aligned_ranks(operands)
        if unsigned:
            values = [_unsigned(value, bits) for value in values]
        result = compute(*values)
        return (result & 1).astype(bool) if flag else _wrapped_to_bits(result, kept)

    return apply


def _wrapped_to_bits(value: Array, bits: int) -> Array:
    """Return a number in so many bits; one of 64 stays unchanged."""
    if bits >= 64 or value.dtype == bool:
        return value
    half = 1 << (bits - 1)
    wrapped: Array = ((value + half) & ((1 << bits) - 1)) - half
    return wrapped


def _unsigned(value: Array, bits: int) -> Array:
    """As an unsigned number; one of 64 bits stays unchanged."""
    return value if value.dtype == bool or bits >= 64 else value & ((1 << bits) - 1)


_COMPARISONS: Mapping[str, Callable[[Array, Array], Array]] = {
    **{"eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal},
    **{"gt": np.greater, "ge": np.greater_equal},
}


def integer_comparison(operation: Operation) -> Callable[[Array, Array], Array]:
    """``arith.cmpi``, by its predicate."""
    bits = element_bits(operation.all_types[0].element)
    predicate = operation.text.split(",")[0].strip()
    unsigned, holds = predicate.startswith("u"), _COMPARISONS[predicate[-2:]]

    def apply(*operands: Array) -> Array:
        a, b = aligned_ranks(operands)
        if unsigned:
            a, b = _unsigned(a, bits), _unsigned(b, bits)
        return holds(a, b)

    return apply


# ---------------------------------------------------------------------------------------- shapes


def _reshape_value(operation: Operation, value: Array, corners: bool) -> Value:
    before, after = operation.all_types[0].shape, operation.result_type.shape
    if corners and [s for s in before if s > 1] != [s for s in after if s > 1]:
        return _folded_corners(value, before, after)
    whole = [min(size, _PROBES) if corners else size for size in before]
    value = np.broadcast_to(value, (value.shape[0], *whole))
    return value.reshape(value.shape[0], *(min(s, _PROBES) if corners else s for s in after))


def _folded_corners(value: Array, before: Sequence[int], after: Sequence[int]) -> Value:
    """Fold the corners of a vector into a tensor, if its elements grow by a constant step."""
    size = math.prod(before)
    if len(before) != 1 or size <= 2 or value.dtype == bool:
        return None
    first, middle, last = np.broadcast_to(value, (len(value), _PROBES)).T
    step = (last - first) // (size - 1)
    if np.any(first + step * (size - 1) != last) or np.any(first + step * (size // 2) != middle):
        return None
    place = np.zeros((1,) * len(after), np.int64)
    for dim, length in enumerate(after):
        shape = [-1 if d == dim else 1 for d in range(len(after))]
        place = place + corner_places(length).reshape(shape) * math.prod(after[dim + 1 :])
    folded: Array = along_programs(first, place[None]) + along_programs(step, place[None]) * place
    return folded


SHAPES: Mapping[str, Callable[[Operation, Array, bool], Value]] = {
    "tt.splat": lambda op, a, _: a.reshape(a.shape[:1] + (1,) * len(op.result_type.shape)),
    "tt.expand_dims": lambda op, a, _: np.expand_dims(a, 1 + (op.attribute("axis") or 0)),
    "tt.broadcast": lambda _, a, __: a,  # numpy does it when needed
    "tt.trans": lambda op, a, _: a.transpose(0, *(1 + dim for dim in op.integers("order"))),
    "tt.reshape": _reshape_value,
    "tt.unsplat": lambda _, a, __: a.reshape(a.shape[0], -1)[:, 0],
}
"""By operation; called with it, its operand, and whether that has only corners."""
