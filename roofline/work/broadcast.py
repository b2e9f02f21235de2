"""Copies of one element: what is computed from them is computed once.

``x.repeat(4, 1).exp()`` takes as many exponentials as x has elements, however many copies are
written. Walking forwards, the number of different elements is carried from op to op, and along
which dimensions they repeat: a product of factors with equal rows has equal rows.

Notation
    group    neighbours along one dimension that are the same; infinite if all are
    period   elements along one dimension after which they begin again; infinite if they do not
    layout   (stride, period) in bytes of a storage, for each dimension along which elements change:
             they change every `stride` bytes, and begin again after `period`
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch

from solkit.ops import Family
from solkit.roofline.work.program import TensorUse, TracedOp
from solkit.roofline.work.regions import covered_bytes

Layout = tuple[tuple[float, float], ...]


class Repeats:
    """Layouts of the storages whose elements repeat, at one point of a program."""

    def __init__(self, extents: Mapping[int, int]) -> None:
        self._extents = extents
        self._layouts: dict[int, Layout] = {}

    def copied(self, use: TensorUse) -> tuple[float, ...] | None:
        """Return for each dimension how many neighbours are the same; ``None`` if unknown."""
        layout = self._layouts.get(use.storage)
        return None if layout is None else groups_of(use, layout)

    def groups(self, use: TensorUse, least: float = 1.0) -> tuple[float, ...]:
        """Return for each dimension how many neighbours are the same: `least` where unknown."""
        return self.copied(use) or tuple(
            math.inf if n == 1 or step == 0 else least for n, step in zip(use.shape, use.stride)
        )

    def periods(self, use: TensorUse) -> tuple[float, ...] | None:
        """Return for each dimension after how many elements they begin again."""
        layout = self._layouts.get(use.storage)
        return None if layout is None else _periods_of(use, layout)

    def different_after(self, op: TracedOp) -> int:
        """Count the different elements of the next op's only result, as its operands repeat."""
        result, layout = op.result, self._layout_after(op)
        if layout is None or not all(isinstance(n, int) for n in result.shape):
            return result.distinct
        groups = zip(result.shape, groups_of(result, layout))
        varying = math.prod(1 if math.isinf(group) else math.ceil(n / group) for n, group in groups)
        return -(-result.distinct * varying // max(result.numel, 1))

    def note(self, op: TracedOp) -> None:
        """Note along which dimensions the results of the next op repeat, as its operands do."""
        layout = self._layout_after(op)
        for use in op.stored:
            self._layouts.pop(use.storage, None)
        if layout is not None:
            self._layouts[op.result.storage] = layout

    def _layout_after(self, op: TracedOp) -> Layout | None:
        record = op.operator
        sources = op.inputs[-1:] if record.overwrites else op.inputs
        if record.needs in ("repeat", "cat") and len(set(sources)) == 1:
            return self._layout_of_copies(op, sources[0])
        if record.family is Family.REDUCTION and len(op.inputs) == len(op.outputs) == 1:
            return self._layout_of_reduction(op, op.inputs[0])
        is_copy = moves(op) and len(sources) == 1
        is_pointwise = record.family is Family.POINTWISE or torch.Tag.pointwise in op.tags
        is_function = is_pointwise and not record.random
        if not sources or not (is_copy or is_function):
            return None
        if op.written and op.result.numel < self._extents[op.result.storage]:
            return None  # other elements are as they were
        shape = op.result.shape
        operands = [aligned(self.groups(use), use.shape, shape) for use in sources]
        groups = tuple(map(min, *operands)) if len(operands) > 1 else operands[0]
        periods = tuple(
            _common_period(dims)
            for dims in zip(
                *(
                    zip(mine, _aligned_periods(self.periods(use), use.shape, shape))
                    for mine, use in zip(operands, sources)
                )
            )
        )
        return _layout_unless_plain(op.result, groups, periods)

    def _layout_of_reduction(self, op: TracedOp, source: TensorUse) -> Layout | None:
        """Return the layout of what equal lines are reduced to."""
        over, keeps = dimensions_of(op, source), len(op.result.shape) == len(source.shape)
        groups = self.groups(source)
        periods = self.periods(source) or (math.inf,) * len(groups)
        kept = [d for d in range(len(groups)) if keeps or d not in over]
        return _layout_unless_plain(
            op.result,
            [math.inf if d in over else groups[d] for d in kept],
            [math.inf if d in over else periods[d] for d in kept],
        )

    def _layout_of_copies(self, op: TracedOp, source: TensorUse) -> Layout | None:
        """Return the layout of copies of a tensor next to each other."""
        shape = op.result.shape
        extra = len(shape) - len(source.shape)
        sizes = (1,) * extra + source.shape
        groups = (math.inf,) * extra + self.groups(source)
        before = self.periods(source) or (math.inf,) * len(source.shape)
        periods = tuple(
            period if m == n or (isinstance(n, int) and n % period == 0) else n
            for n, m, period in zip(sizes, shape, (math.inf,) * extra + before)
        )
        if not all(isinstance(n, int) for n in sizes):
            return None  # symbols do not tell which period is the shorter one
        return _layout_unless_plain(op.result, groups, periods)


def without_repeats(ops: Sequence[TracedOp]) -> list[TracedOp]:
    """Return the ops, with the number of different elements of operands and results (`values`)."""
    different: dict[int, int] = {}
    extents = extents_of(ops)
    repeats = Repeats(extents)

    def count(leaf: Any) -> Any:
        if not isinstance(leaf, TensorUse):
            return leaf
        groups, periods = repeats.copied(leaf), repeats.periods(leaf)
        return replace(leaf, values=different.get(leaf.storage), groups=groups, periods=periods)

    merged = []
    for op in ops:
        is_whole = not op.written or op.result.numel >= extents[op.result.storage]
        values = _values(op, different) if is_whole else op.result.distinct
        for use in op.written:
            different.pop(use.storage, None)
        if is_whole and len(op.stored) == 1 and not op.operator.random:
            values = min(values, repeats.different_after(op))
            if values < op.result.distinct:
                different[op.result.storage] = values
        touched = any(
            use.storage in different or repeats.copied(use) for use in (*op.inputs, *op.outputs)
        )
        merged.append(op.mapped(count) if touched else op)
        repeats.note(op)
    return merged


def extents_of(ops: Iterable[TracedOp]) -> dict[int, int]:
    """Return the elements of storages up to the last one that is used."""
    extents: dict[int, int] = {}
    for op in ops:
        for use in (*op.inputs, *op.outputs, *op.written):
            reach = sum(step * max(n - 1, 0) for n, step in zip(use.shape, use.stride))
            extents[use.storage] = max(use.offset + reach + 1, extents.get(use.storage, 0))
    return extents


def dimensions_of(op: TracedOp, use: TensorUse) -> list[int]:
    """Return the dimensions that a reduction is over; none of a single number."""
    dim, rank = op.arguments.get("dim"), len(use.shape)
    if not rank:
        return []
    if dim is None or dim == []:
        return list(range(rank))
    return [d % rank for d in (dim if isinstance(dim, list | tuple) else [dim])]


def moves(op: TracedOp) -> bool:
    """Tell if results are elements of operands, up to their sign."""
    return bool(op.operator.moves or op.operator.negates)


def _values(op: TracedOp, different: dict[int, int]) -> int:
    """Count the different elements that an op computes."""
    result = op.result
    sources = {use for use in op.inputs if use.numel > 1}
    if op.operator.needs in ("cat", "stack"):
        return sum(_different(use, different) for use in sources)
    if not op.inputs or not (torch.Tag.pointwise in op.tags or _copies(op)):
        return result.distinct
    alone = [_different(use, different) for use in sources] if len(sources) == 1 else []
    return min(result.distinct, _varying(op), *alone)


def _copies(op: TracedOp) -> bool:
    """Tell if it copies elements to the same place, or to several."""
    return bool(op.operator.moves and (op.operator.aligned or op.operator.needs == "repeat"))


def _different(use: TensorUse, different: dict[int, int]) -> int:
    """Return the number of different elements of a view: windows may overlap."""
    stored = covered_bytes([use]) // use.dtype.itemsize if use.mask is None else use.distinct
    return min(use.distinct, stored, different.get(use.storage, stored))


def _varying(op: TracedOp) -> int:
    """Count elements of an elementwise result without the dimensions in which no operand varies."""
    result = op.result
    if op.operator.needs == "repeat":
        return result.distinct
    varying = 1
    for axis, n in enumerate(reversed(result.shape)):
        if any(_varies(use, axis) for use in op.inputs):
            varying *= n
    return -(-result.distinct * varying // max(result.numel, 1))


def _varies(use: TensorUse, axis: int) -> bool:
    """Tell whether a tensor's elements differ along an axis, counted from the last."""
    return axis < len(use.shape) and use.shape[~axis] > 1 and use.stride[~axis] != 0


def groups_of(use: TensorUse, layout: Layout) -> tuple[float, ...]:
    """Return for each dimension of a use how many neighbours are the same."""

    def along(n: int, step: int) -> float:
        if n == 1 or step == 0:
            return math.inf
        met = [stride for stride, period in layout if step % period and stride < step * n]
        return min((max(1.0, stride / step) for stride in met), default=math.inf)

    item = use.dtype.itemsize
    return tuple(along(n, abs(step) * item) for n, step in zip(use.shape, use.stride))


def _periods_of(use: TensorUse, layout: Layout) -> tuple[float, ...]:
    """Return for each dimension of a use after how many elements they begin again."""

    def along(n: int, step: int) -> float:
        if n == 1 or step == 0:
            return math.inf
        met = [period / step for stride, period in layout if step % period and stride < step * n]
        inside = [int(period) for period in met if period < n and float(period).is_integer()]
        return math.lcm(*inside) if inside and len(inside) == len(met) else math.inf

    item = use.dtype.itemsize
    return tuple(along(n, abs(step) * item) for n, step in zip(use.shape, use.stride))


def _common_period(operands: Sequence[tuple[float, float]]) -> float:
    """Return after how many elements operands begin again together, of their groups and periods."""
    periods = [period for group, period in operands if math.isfinite(group)]
    if not periods or not all(map(math.isfinite, periods)):
        return math.inf
    return math.lcm(*map(int, periods))


def _aligned_periods(
    periods: Sequence[float] | None, shape: Sequence[int], target: Sequence[int]
) -> tuple[float, ...]:
    """Bring periods to another shape, with other dimensions in front of equal ones."""
    same = 0
    while same < min(len(shape), len(target)) and shape[-1 - same] == target[-1 - same]:
        same += 1
    kept = () if periods is None or not same else tuple(periods[-same:])
    return (math.inf,) * (len(target) - len(kept)) + kept


def _layout_unless_plain(
    use: TensorUse, groups: Sequence[float], periods: Sequence[float]
) -> Layout | None:
    """Return the layout of a storage; ``None`` where no element repeats."""
    begins_again = any(
        math.isfinite(period) and period < n for period, n in zip(periods, use.shape)
    )
    if not begins_again and all(group == 1 or n == 1 for group, n in zip(groups, use.shape)):
        return None
    return layout_of(use, groups, periods)


def aligned(
    groups: Sequence[float], shape: Sequence[int], target: Sequence[int]
) -> tuple[float, ...]:
    """Bring groups to another shape: broadcast, or with other dimensions in front of equal ones."""
    if len(shape) == len(target):
        return tuple(
            math.inf if n == 1 and m != 1 else group for group, n, m in zip(groups, shape, target)
        )
    if len(shape) < len(target) and all(n in (1, m) for n, m in zip(shape[::-1], target[::-1])):
        return (math.inf,) * (len(target) - len(shape)) + aligned(
            groups, shape, target[len(target) - len(shape) :]
        )
    same = 0
    while same < min(len(shape), len(target)) and shape[-1 - same] == target[-1 - same]:
        same += 1
    rest = groups[: len(shape) - same]
    front = 1.0 if any(math.isfinite(group) for group in rest) else math.inf
    return (front,) * (len(target) - same) + tuple(groups[len(shape) - same :])


def layout_of(
    use: TensorUse, groups: Sequence[float], periods: Sequence[float] | None = None
) -> Layout:
    """Return the layout of a storage whose elements repeat, as a use of it sees them."""
    item = use.dtype.itemsize
    steps = sorted(step * item for n, step in zip(use.shape, use.stride) if n > 1 and step)
    after = periods or (math.inf,) * len(use.shape)
    return tuple(
        (
            step * item * group,
            min(step * item * period, next((s for s in steps if s > step * item), math.inf)),
        )
        for n, step, group, period in zip(use.shape, use.stride, groups, after)
        if step and math.isfinite(group) and n > group
    )
