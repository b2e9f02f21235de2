"""Elementwise results that an earlier op has, at other places or with the sign reversed.

u[i] - u[i + 1] is u[i + 1] - u[i] negated, one place on: what an even function makes of differences
to the left neighbours serves the right ones. Each result gets the number of the expression that
makes it, whatever its place and sign (value numbering, as compilers do it). Rounding is symmetric,
so the results are the same bits.

What a pad or a roll puts beyond the edges of a tensor repeats elements, or is the same everywhere:
results of that are not counted.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from solkit.ops import Family
from solkit.roofline.work.costs import Cost
from solkit.roofline.work.program import TensorUse, TracedOp, uses_of

_Place = tuple[int | None, ...]
_Range = tuple[float, float]
_Region = tuple[_Range, ...]
_EVERYWHERE = (-math.inf, math.inf)
_MANY = 16  # earlier results of one expression that are looked at


@dataclass(frozen=True)
class _Value:
    """Elements of a tensor, as those of a numbered expression.

    Attributes:
        number: of the expression, whatever its place and sign.
        axes: the axis of the expression along each dimension; ``None`` where nothing changes.
        place: the place of the first element along each of them.
        inside: along each dimension, the indices that no pad or roll filled.
        negative: whether the sign is reversed.
    """

    number: int
    axes: _Place
    place: _Place
    inside: tuple[_Range, ...]
    negative: bool = False

    def over(self, ndim: int) -> _Value:
        """Return the same elements, broadcast to `ndim` dimensions."""
        new = ndim - len(self.axes)
        none, everywhere = (None,) * new, (_EVERYWHERE,) * new
        return replace(
            self,
            axes=none + self.axes,
            place=none + self.place,
            inside=everywhere + self.inside,
        )

    @property
    def order(self) -> tuple[Any, ...]:
        """Key by which terms are sorted: by their places to each other, so the same anywhere."""
        return tuple(-math.inf if at is None else at for at in self.place), self.number


def with_shared_results(ops: Sequence[TracedOp], costs: Sequence[Cost | None]) -> list[Cost | None]:
    """Return the costs of ops without elements that an earlier op has computed.

    Args:
        ops: in program order.
        costs: of each; ``None`` if unknown.
    """
    numbering = _Numbering()
    makers: defaultdict[tuple[int, _Place], list[int]] = defaultdict(list)
    regions: dict[int, _Region] = {}
    counts: dict[int, int] = {}
    for position, op in enumerate(ops):
        value = numbering.learn(op)
        if value is None or not _is_plain(op.result):
            continue
        if all(axis is None for axis in value.axes) and op.result.numel > 1:
            counts[position] = 0  # the same number everywhere, as of a difference of equals
            continue
        makers[value.number, value.axes].append(position)
        regions[position] = _region(value, op.result.shape)
    for positions in makers.values():
        for number, position in enumerate(positions[1:], 1):
            earlier = positions[max(number - _MANY, 0) : number]
            again = max(_size(_common(regions[position], regions[p])) for p in earlier)
            counts[position] = _size(regions[position]) - again
        if any(counts[position] < ops[position].result.numel for position in positions[1:]):
            counts[positions[0]] = _size(regions[positions[0]])
    return [
        cost
        if cost is None or position not in counts
        else _for_elements(cost, counts[position], ops[position].result.distinct)
        for position, cost in enumerate(costs)
    ]


def _is_plain(use: TensorUse) -> bool:
    return use.mask is None and use.sure and use.distinct == use.numel > 0


def _region(value: _Value, shape: Sequence[int]) -> _Region:
    """Return the elements of an expression that a result has, along each dimension."""
    return tuple(
        ((at or 0) + max(low, 0), (at or 0) + min(high, n))
        for at, (low, high), n in zip(value.place, value.inside, shape)
    )


def _common(x: _Region, y: _Region) -> _Region:
    return tuple((max(a, c), min(b, d)) for (a, b), (c, d) in zip(x, y))


def _size(region: _Region) -> int:
    return int(math.prod(max(high - low, 0) for low, high in region))


def _for_elements(cost: Cost, count: int, of: int) -> Cost:
    """Return the cost of `count` elements alone."""
    part = {pipe: amount * count // of for pipe, amount in cost.operations.items()}
    return Cost({pipe: amount for pipe, amount in part.items() if amount})


class _Numbering:
    """Numbers of expressions at one point of a program. Takes the ops in program order."""

    def __init__(self) -> None:
        self._numbers: dict[Any, int] = {}
        self._made: dict[int, tuple[TensorUse, _Value]] = {}
        self._writes: Counter[int] = Counter()

    def learn(self, op: TracedOp) -> _Value | None:
        """Return the value of an elementwise op's result; ``None`` of other ops."""
        for use in op.written:
            self._writes[use.storage] += 1
            self._made.pop(use.storage, None)
        if op.written or len(op.outputs) != 1 or not op.inputs or not _is_followed(op):
            return None
        moved = self._moved(op)
        value = moved or self._computed(op)
        if value is not None:
            self._made[op.result.storage] = op.result, value
        return None if moved else value

    def _number(self, *key: Any) -> int:
        return self._numbers.setdefault(key, len(self._numbers))

    def _value_of(self, use: TensorUse) -> _Value:
        return self._part_of_made(use) or self._tensor(use)

    def _tensor(self, use: TensorUse) -> _Value:
        """Return a tensor by its place in a storage, whatever made it."""
        steps = tuple(step if n > 1 and step else None for n, step in zip(use.shape, use.stride))
        starts, rest = _starts(use.offset, [step for step in steps if step is not None])
        number = self._number("tensor", use.storage, self._writes[use.storage], use.dtype, rest)
        place = tuple(None if step is None else starts.pop(step, 0) for step in steps)
        return _Value(number, steps, place, (_EVERYWHERE,) * len(steps))

    def _part_of_made(self, use: TensorUse) -> _Value | None:
        """Return a view of a numbered result; ``None`` of others, and of other dimensions."""
        if use.storage not in self._made:
            return None
        whole, value = self._made[use.storage]
        dims = {s: d for d, (n, s) in enumerate(zip(whole.shape, whole.stride)) if n > 1 and s}
        starts, rest = _starts(use.offset - whole.offset, dims)
        seen = [dims.get(step) if n > 1 else None for n, step in zip(use.shape, use.stride)]
        moving = [n > 1 and step != 0 for n, step in zip(use.shape, use.stride)]
        if rest or any(d is None for d, moves in zip(seen, moving) if moves):
            return None
        axes, place, inside = list[int | None](), list[int | None](), list[_Range]()
        for d, step in zip(seen, use.stride):
            at = None if d is None else value.place[d]
            start = starts.pop(step, 0) if d is not None else 0
            axes.append(None if d is None else value.axes[d])
            place.append(None if at is None else at + start)
            low, high = _EVERYWHERE if d is None else value.inside[d]
            inside.append((low - start, high - start))
        number = value.number
        fixed = sorted(
            (axis, at + start)
            for step, start in starts.items()
            for axis, at in [(value.axes[dims[step]], value.place[dims[step]])]
            if dims[step] not in seen and axis is not None and at is not None
        )
        if fixed:
            number = self._number("part", number, tuple(fixed))
        return _Value(number, tuple(axes), tuple(place), tuple(inside), value.negative)

    def _moved(self, op: TracedOp) -> _Value | None:
        """Return the value of a copy, a pad or a roll: its operand's, from another place."""
        record, x, out = op.operator, op.inputs[0], op.result
        if not record.moves or len(op.inputs) > 1 or x.dtype != out.dtype:
            return None
        if record.aligned and x.shape == out.shape:
            return self._value_of(x)
        before = _shift_of(op)
        if before is None:
            return None
        value = self._value_of(x)
        if any(ends != _EVERYWHERE for ends in value.inside):
            self._made.pop(x.storage, None)  # from here on a tensor of its own
            value = self._tensor(x)
        place = tuple(None if at is None else at - n for at, n in zip(value.place, before))
        inside = tuple((n, n + size) for n, size in zip(before, x.shape))
        return replace(value, place=place, inside=inside)

    def _computed(self, op: TracedOp) -> _Value | None:
        record, ndim = op.operator, len(op.result.shape)
        if (
            record.family is not Family.POINTWISE
            or record.moves
            or list(op.inputs) != uses_of((op.args, op.kwargs))
        ):
            return None
        values = [self._value_of(use).over(ndim) for use in op.inputs]
        numbers = tuple(
            "tensor" if isinstance(x, TensorUse) else (type(x).__name__, str(x))
            for x in (*op.args, *sorted(op.kwargs.items()))
        )
        name: Any = (op.name, op.result.dtype, numbers)
        negative = False
        is_pair = len(values) == 2 and op.arguments.get("alpha", 1) == 1
        if record.negates:
            return replace(values[0], negative=not values[0].negative)
        if is_pair and record.sums and record.adds_terms:
            if record.cancels_equal:
                values[1] = replace(values[1], negative=not values[1].negative)
            values.sort(key=lambda value: value.order)
            first, second = values
            same = [first.number, first.axes, first.place] == [
                *(second.number, second.axes, second.place)
            ]
            if same and first.negative != second.negative:
                none, everywhere = (None,) * ndim, (_EVERYWHERE,) * ndim
                return _Value(self._number("zero"), none, none, everywhere)
            name, negative = ("sum", op.result.dtype), first.negative
            values = [replace(v, negative=v.negative != negative) for v in values]
        elif record.linear and record.multiplies and not record.sums:
            negative = sum(value.negative for value in values) % 2 == 1
            values = [replace(value, negative=False) for value in values]
            if record.commutes:
                values.sort(key=lambda value: value.order)
        elif len(values) == 1 and (parity := _parity(op)):
            negative = parity < 0 and values[0].negative
            values = [replace(values[0], negative=False)]
        base = tuple(
            next((at for at in places if at is not None), None)
            for places in zip(*(value.place for value in values))
        )
        parts = tuple(
            (value.number, value.axes, value.negative, _relative(value.place, base))
            for value in values
        )
        axes = tuple(None if at is None else axis for axis, at in enumerate(base))
        inside = tuple(
            (max(low for low, _ in ends), min(high for _, high in ends))
            for ends in zip(*(value.inside for value in values))
        )
        return _Value(self._number(name, parts), axes, base, inside, negative)


def _is_followed(op: TracedOp) -> bool:
    """Tell whether an op of floats has one result whose elements depend on the operands alone."""
    drawn = op.operator.random or torch.Tag.nondeterministic_seeded in op.tags
    return op.result.dtype.is_floating_point and not drawn


def _parity(op: TracedOp) -> int:
    """Return 1 for an even function, -1 for an odd one, 0 for others."""
    exponent = op.arguments.get("exponent")
    if isinstance(exponent, (int, float)) and float(exponent).is_integer():
        return 1 if exponent % 2 == 0 else -1
    return op.operator.parity


def _starts(offset: int, steps: Iterable[int]) -> tuple[dict[int, int], int]:
    """Return an offset as a place along each stride, and what is left."""
    starts = {}
    for step in sorted(set(steps), reverse=True):
        starts[step], offset = divmod(offset, step)
    return starts, offset


def _shift_of(op: TracedOp) -> list[int] | None:
    """Return how far a pad or a roll moves elements along each dimension; ``None`` of other ops."""
    x, out = op.inputs[0].shape, op.result.shape
    amounts = op.arguments.get("pad", op.arguments.get("padding"))
    shifts = [0] * len(out)
    if isinstance(amounts, (list, tuple)) and len(x) == len(out) and len(amounts) <= 2 * len(x):
        grown = [0] * len(out)
        for axis, (before, after) in enumerate(zip(amounts[::2], amounts[1::2])):
            shifts[~axis], grown[~axis] = before, before + after
        return shifts if all(n + g == m for n, g, m in zip(x, grown, out)) else None
    if op.operator.needs == "roll" and op.arguments.get("dims") and x == out:
        for axis, shift in zip(op.arguments["dims"], op.arguments["shifts"]):
            shifts[axis] = shift
        return shifts
    return None


def _relative(place: _Place, base: _Place) -> _Place:
    return tuple(None if at is None else at - (start or 0) for at, start in zip(place, base))
