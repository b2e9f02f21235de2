"""Memory that the elements of one launch access, as boxes of strided places.

`solkit.adapters.tilings` proves what a kernel of elements does with each index. Where two of its
arguments are views of one buffer, that is not enough: an element may write what another one reads.
Here sizes, strides and grid of one launch are put into the kernel's code. An address is then a sum
of digits of the index, as ``index // 64`` and ``index % 64``, times numbers: a box. Whether two
boxes share a byte is decided exactly. Views' own shapes are not asked: a kernel may reach beyond.

What is not understood makes boxes larger, or is no box: neither proves what is wrong. Masks that
bound an index make them smaller. Numbers that leave their type's range are not followed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import gcd
from typing import NamedTuple

from solkit.adapters.argument_overlaps import ArgumentBuffers
from solkit.adapters.triton_ir import Function, IrError, Operation, element_bits, parse_module

_MOST_STEPS = 2000
"""Values tried for the digits of two boxes, at most."""
_AXES = ("x", "y", "z")
_SAME = ("tt.splat", "ttg.convert_layout")
_WIDTHS = ("arith.extsi", "arith.extui", "arith.trunci")
_LESS = {"slt": (1, 1), "ult": (1, 1), "sle": (1, 0), "ule": (1, 0)}
_MORE = {"sgt": (-1, 1), "ugt": (-1, 1), "sge": (-1, 0), "uge": (-1, 0)}


class Box(NamedTuple):
    """Bytes from ``start + Σ digit · stride`` on, each digit from 0 to its count.

    Attributes:
        start: in bytes.
        digits: counts and strides in bytes.
        width: bytes of an access.
    """

    start: int
    digits: tuple[tuple[int, int], ...]
    width: int


def have_common_byte(one: Box, other: Box) -> bool:
    """Tell whether boxes share a byte; also ``True`` where that takes too long to decide."""
    sides = ((1, one), (-1, other))
    amounts = [(sign * step, count) for sign, box in sides for count, step in box.digits]
    amounts += [(1, one.width), (-1, other.width)]
    target = other.start - one.start
    counts: dict[int, int] = {}
    for step, count in amounts:
        if count < 1:
            return False  # no access at all
        target += min(step, 0) * (1 - count)
        counts[abs(step)] = counts.get(abs(step), 1) + count - 1  # equal strides are one digit
    steps = sorted((step for step, n in counts.items() if step and n > 1), reverse=True)
    return _Sums([(step, counts[step]) for step in steps]).reach(target)


class _Sums:
    """Sums of digits below their counts, times strides in descending order."""

    def __init__(self, digits: Sequence[tuple[int, int]]) -> None:
        self._digits, self._steps = digits, 0
        self._rests = [(0, 0)]  # what later digits add at most, and what divides it
        for step, count in reversed(digits):
            most, divisor = self._rests[0]
            self._rests.insert(0, (most + step * (count - 1), gcd(divisor, step)))

    def reach(self, target: int, place: int = 0) -> bool:
        """Tell whether digits from a place on may have a sum."""
        self._steps += 1
        most, divisor = self._rests[place]
        if self._steps > _MOST_STEPS or target == 0:
            return True
        if not 0 <= target <= most or target % divisor:
            return False
        step, count = self._digits[place]
        first = max(-(-(target - self._rests[place + 1][0]) // step), 0)
        last = min(target // step, count - 1)
        return any(self.reach(target - n * step, place + 1) for n in range(first, last + 1))


class _Digit(NamedTuple):
    """``index // low % radix`` of an axis; not reduced if the radix is 0."""

    axis: int
    low: int
    radix: int


@dataclass(frozen=True)
class _Number:
    """A whole number: a constant and digits, each with its factor."""

    constant: int = 0
    factors: Mapping[_Digit, int] = field(default_factory=dict)

    def plus(self, other: _Number, times: int = 1) -> _Number:
        """Return the sum of this number and a multiple of another one."""
        factors = dict(self.factors)
        for digit, factor in other.factors.items():
            factors[digit] = factors.get(digit, 0) + times * factor
        factors = {digit: factor for digit, factor in factors.items() if factor}
        return _Number(self.constant + times * other.constant, _joined(factors))


def _joined(factors: dict[_Digit, int]) -> dict[_Digit, int]:
    """Return factors in which neighbouring digits of an index are one."""
    for digit in sorted(factors):
        above = [d for d in factors if d[:2] == (digit.axis, digit.low * digit.radix)]
        for upper in above:
            if digit.radix and factors[upper] == digit.radix * factors[digit]:
                remaining = {d: f for d, f in factors.items() if d not in (digit, upper)}
                whole = _Digit(digit.axis, digit.low, digit.radix * upper.radix)
                if whole not in remaining:
                    return _joined({**remaining, whole: factors[digit]})
    return factors


_Limits = frozenset[tuple[_Digit, int]]
"""Digits that are below numbers where a boolean holds."""


@dataclass(frozen=True)
class _Pointer:
    """An argument's pointer and an offset in bytes; ``None`` if that is unknown."""

    argument: str
    offset: _Number | None


_Value = _Number | _Pointer | _Limits | None


class _UnknownError(Exception):
    """The code does not say through which pointer it accesses memory."""


class Places:
    """Places that a kernel accesses, of which `tilings` proved that it is one of elements.

    Args:
        text: its TTGIR.
        axis: of the grid that cuts the elements.
    """

    def __init__(self, text: str, axis: int) -> None:
        self._function, self._axis = parse_module(text), axis
        self._pointers = [name for name, kind in self._function.arguments if "ptr" in kind]

    def are_apart(
        self, buffers: ArgumentBuffers, grid: Sequence[int], scalars: Mapping[str, int]
    ) -> bool:
        """Tell whether nothing is written through one pointer that another one reaches.

        Args:
            buffers: of the launch's tensors; pairs that share a storage are looked at.
            grid: programs in x, y and z, as far as they are given.
            scalars: the launch's whole numbers, by parameter.
        """
        if len(buffers.same) != len(self._pointers):
            return False
        try:
            accesses = _Reader(self._function, self._axis, grid, scalars).accesses
        except (IrError, ValueError, _UnknownError):
            return False
        return all(
            self._is_apart(accesses, (self._pointers[one], self._pointers[other]), by)
            for one, other, by in buffers.shared
        )

    def _is_apart(self, accesses: _Accesses, names: tuple[str, str], by: int) -> bool:
        here, there = (accesses.get(name, ()) for name in names)
        return not any(
            (is_store or is_other_store) and _may_meet(box, other, by)
            for is_store, box in here
            for is_other_store, other in there
        )


_Accesses = dict[str, list[tuple[bool, Box | None]]]
"""Bytes of each pointer, and whether they are written; ``None`` if that is unknown."""


def _may_meet(box: Box | None, other: Box | None, by: int) -> bool:
    if box is None or other is None:
        return True
    return have_common_byte(box, other._replace(start=other.start + by))


class _Reader:
    """Follows a kernel with the numbers of a launch.

    Attributes:
        accesses: of all elements.
    """

    def __init__(
        self, function: Function, axis: int, grid: Sequence[int], scalars: Mapping[str, int]
    ) -> None:
        operations = function.blocks[0].operations
        ranges = [part for part in operations if part.name == "tt.make_range"]
        (self._lanes,) = {part.result_type.shape[0] for part in ranges} or {1}
        self._axis, self.accesses = axis, _Accesses()
        full = (*grid, 1, 1, 1)[: len(_AXES)]
        self._totals = [n * self._lanes if k == axis else n for k, n in enumerate(full)]
        self._values: dict[str, _Value] = {
            name: _Pointer(name, _Number()) if "ptr" in kind else _number(scalars.get(name[1:]))
            for name, kind in function.arguments
        }
        for operation in operations:
            self._follow(operation)

    def _follow(self, operation: Operation) -> None:
        operands = [self._values[name] for name in operation.operands]
        if operation.name in ("tt.load", "tt.store"):
            self._note_access(operation, operands)
        value = self._value(operation, operands) if operation.results else None
        for name in operation.results:
            self._values[name] = value

    def _note_access(self, operation: Operation, operands: Sequence[_Value]) -> None:
        is_store, pointer = operation.name == "tt.store", operands[0]
        if not isinstance(pointer, _Pointer):
            raise _UnknownError
        limits = operands[2 if is_store else 1 :]
        limit = limits[0] if limits and isinstance(limits[0], frozenset) else frozenset()
        width = operation.all_types[0].pointee_bits // 8
        boxes = self.accesses.setdefault(pointer.argument, [])
        boxes.append((is_store, self._box(pointer.offset, width, limit)))

    def _box(self, offset: _Number | None, width: int, limits: _Limits) -> Box | None:
        if offset is None:
            return None
        digits = [(self._count(d, limits), factor) for d, factor in offset.factors.items()]
        return Box(offset.constant, tuple(digits), max(width, 1))

    def _count(self, digit: _Digit, limits: _Limits = frozenset()) -> int:
        """Return the values of a digit, from 0 on, where limits hold."""
        total = self._totals[digit.axis]
        for other, limit in limits:
            if other.axis == digit.axis and not other.radix:
                total = min(total, limit * other.low)
        count = -(-total // digit.low)
        count = min(count, digit.radix) if digit.radix else count
        return min([count, *(limit for other, limit in limits if other == digit)])

    def _value(self, operation: Operation, operands: Sequence[_Value]) -> _Value:
        name = operation.name
        if name == "tt.get_program_id":
            axis = _AXES.index(operation.text.split()[0])
            low = self._lanes if axis == self._axis else 1
            return _Number(0, {_Digit(axis, low, 0): 1})
        if name == "tt.make_range":
            return _Number(0, {_Digit(self._axis, 1, self._lanes): 1})
        if name == "arith.constant":
            return _constant(operation)
        if name in _SAME:
            return operands[0]
        if name == "tt.bitcast":
            return operands[0] if isinstance(operands[0], _Pointer) else None
        if name == "tt.addptr":
            return self._moved(operation, operands)
        if name == "arith.andi" and any(isinstance(part, frozenset) for part in operands):
            return frozenset().union(*(part for part in operands if isinstance(part, frozenset)))
        numbers = [part for part in operands if isinstance(part, _Number)]
        if name in _WIDTHS and numbers:
            is_negative = name == "arith.extui" and self._range(numbers[0])[0] < 0
            return None if is_negative else self._fitting(numbers[0], operation)
        if len(numbers) != 2 or len(operands) != 2:
            return None
        if name == "arith.cmpi":
            return self._limits(operation.text.split(",")[0].strip(), *numbers)
        return self._fitting(self._computed(name, *numbers), operation)

    def _moved(self, operation: Operation, operands: Sequence[_Value]) -> _Value:
        pointer, offset = operands
        if not isinstance(pointer, _Pointer):
            raise _UnknownError
        if pointer.offset is None or not isinstance(offset, _Number):
            return _Pointer(pointer.argument, None)
        size = max(operation.all_types[0].pointee_bits // 8, 1)
        return _Pointer(pointer.argument, pointer.offset.plus(offset, size))

    def _computed(self, name: str, one: _Number, other: _Number) -> _Number | None:
        if name in ("arith.addi", "arith.subi"):
            return one.plus(other, 1 if name == "arith.addi" else -1)
        if name == "arith.muli":
            one, other = (other, one) if one.factors else (one, other)
            return None if one.factors else _Number().plus(other, one.constant)
        if other.factors or self._range(one)[0] < 0 or other.constant < 0:
            return None
        number = other.constant
        if name == "arith.shli":
            return _Number().plus(one, 2 ** min(number, 64))
        if name in ("arith.shrsi", "arith.shrui"):
            return self._divided(one, 2 ** min(number, 64))[0]
        if name == "arith.andi" and number & (number + 1) == 0:
            return self._divided(one, number + 1)[1]
        is_division = name in ("arith.divsi", "arith.divui", "arith.remsi", "arith.remui")
        return self._divided(one, number)[name.startswith("arith.rem")] if is_division else None

    def _divided(self, number: _Number, by: int) -> tuple[_Number | None, _Number | None]:
        """Return quotient and remainder of a number that is not negative."""
        if by < 1:
            return None, None
        whole = {d: f // by for d, f in number.factors.items() if f % by == 0}
        rest = _Number(
            number.constant % by, {d: f for d, f in number.factors.items() if d not in whole}
        )
        quotient = _Number(number.constant // by, whole)
        low, high = self._range(rest)
        if low < 0:
            return None, None
        if high < by:
            return quotient, rest
        return self._split_digit(quotient, rest, by) or (
            quotient.plus(self._new_digit((high + by) // by)),
            self._new_digit(by),
        )

    def _split_digit(
        self, quotient: _Number, rest: _Number, by: int
    ) -> tuple[_Number, _Number] | None:
        """Return a division's results if its rest is one digit that is cut in two."""
        if rest.constant or len(rest.factors) != 1:
            return None
        ((digit, factor),) = rest.factors.items()
        part = by // factor if factor > 0 and by % factor == 0 else 0
        if not part or digit.radix % part:
            return None
        upper = _Digit(digit.axis, digit.low * part, digit.radix // part)
        lower = _Digit(digit.axis, digit.low, part)
        return quotient.plus(_Number(0, {upper: 1})), _Number(0, {lower: factor})

    def _new_digit(self, count: int) -> _Number:
        """Return a number below a count of which nothing else is known."""
        self._totals.append(count)
        return _Number(0, {_Digit(len(self._totals) - 1, 1, 0): 1})

    def _range(self, number: _Number) -> tuple[int, int]:
        """Return the least and the largest value, as if digits did not depend on each other."""
        ends = [(self._count(digit) - 1) * factor for digit, factor in number.factors.items()]
        low, high = sum(min(end, 0) for end in ends), sum(max(end, 0) for end in ends)
        return number.constant + low, number.constant + high

    def _fitting(self, number: _Number | None, operation: Operation) -> _Number | None:
        """Return a number that no overflow changes; ``None`` for others."""
        if number is None:
            return None
        low, high = self._range(number)
        most = 2 ** (element_bits(operation.result_type.element) - 1)
        return number if -most <= low and high < most else None

    def _limits(self, relation: str, one: _Number, other: _Number) -> _Limits:
        """Return limits of digits where a relation holds; what it says besides is left out."""
        sign, least = {**_LESS, **_MORE}.get(relation, (0, 0))
        if not sign or (relation[0] == "u" and min(*self._range(one), *self._range(other)) < 0):
            return frozenset()
        apart = one.plus(other, -1) if sign > 0 else other.plus(one, -1)
        low = self._range(apart)[0]  # it is at most `-least`
        return frozenset(
            (digit, max((-least - low) // factor + 1, 0))
            for digit, factor in apart.factors.items()
            if factor > 0
        )


def _number(value: int | None) -> _Number | None:
    return None if value is None else _Number(int(value))


def _constant(operation: Operation) -> _Number | None:
    text = operation.text.strip().removeprefix("dense<").removesuffix(">")
    try:
        return _Number(int(text))
    except ValueError:
        return None
