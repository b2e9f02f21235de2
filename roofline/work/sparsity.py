"""Decisions of the data: zeros that cancel a factor, and limits that end a reduction early.

A product with a zero needs no other factor. A search for the largest of bounded values may stop at
the bound. Whether that happens depends on the data, so the static hard bound counts on neither.

What no record says (`solkit.ops`) is taken to happen: an unknown operator may make zeros, pass them
on, have limits and know its result early, so nothing behind it is counted.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping, Sequence

import torch

from solkit.ops import Family, Monotone, Operator, Reduction, Selects
from solkit.roofline.work.products import HIDDEN
from solkit.roofline.work.program import TensorUse, TracedOp

_OF_LINES = (
    *(Reduction.SUM, Reduction.MEAN, Reduction.LARGEST, Reduction.LEAST, Reduction.PRODUCT),
    Reduction.NORM,
)
"""Reductions that are zero where a line of an operand is."""

_FEW = 16
"""Rows of a ReLU's output; with more of them hardly any column is zero in all of them."""
_MASK = 4  # values: with fewer of them integers are taken for a mask
_DEEP = 32


def _makes_zeros(op: TracedOp) -> bool:
    """Tell if zeros are among its results, whatever its operands; so they are if unknown."""
    record = op.operator
    if record.makes_zeros is not None:
        return record.makes_zeros
    if record.family is Family.RANDOM:  # integers that are drawn from so few are a mask
        high = op.arguments.get("high", op.arguments.get("to"))
        return high is not None and int(high) < _MASK
    filling = _filling(op)
    if isinstance(filling, TensorUse):
        return False  # zero if that is
    return filling is None or filling == 0


def _filling(op: TracedOp) -> float | TensorUse | None:
    """Value that a tensor is filled with; ``None`` for other ops."""
    if op.operator.family not in (Family.FILL, Family.CREATION):
        return None
    names = [name for name in ("fill_value", "value", "s") if name in op.arguments]
    value = op.arguments[names[0]] if names else None
    if isinstance(value, TensorUse):
        data = value.value
        is_number = data is not None and data.size and data.dtype.kind in "biuf"
        return float(data.flat[0]) if data is not None and is_number else value
    return float(value) if isinstance(value, (int, float)) else None


def is_infinite_norm(op: TracedOp) -> bool:
    """Tell if it is the largest size, or the least one."""
    order = op.arguments.get("ord", op.arguments.get("p"))
    is_norm = op.operator.reduces is Reduction.NORM or op.operator.cost == "vector norm"
    return is_norm and isinstance(order, (int, float)) and math.isinf(order)


def deciding(op: TracedOp) -> list[TensorUse]:
    """Return operands that say which elements of others are needed: they are read themselves."""
    named = [op.arguments.get(name) for name in op.operator.decides]
    flat = [use for value in named for use in (value if isinstance(value, list) else [value])]
    return [use for use in flat if isinstance(use, TensorUse)]


def _sources(op: TracedOp) -> list[TensorUse]:
    """Return operands whose values the results have, or are computed from.

    They are neither indices and masks, nor what the op overwrites, which has other makers.
    """
    written, choosing = {use.storage for use in op.written}, deciding(op)
    return [
        use
        for use in op.inputs
        if use.storage not in written and not any(use is choice for choice in choosing)
    ]


def _cuts_to_zero(op: TracedOp) -> bool:
    """Tell if an op sends many values to zero; by its limits if its record does not say."""
    flattens = op.operator.flattens_to_zero
    return _may_end_at_zero(op) if flattens is None else flattens


def _vanishes(op: TracedOp) -> bool:
    """Tell if an op sends minus infinity to zero; by its limits if its record does not say."""
    vanishes = op.operator.zero_at_minus_inf
    return _may_end_at_zero(op) if vanishes is None else vanishes


def _may_end_at_zero(op: TracedOp) -> bool:
    """Tell if one of the limits that an op is given, as a clamp, may be zero, or if it has none."""
    names = [name for name in ("min", "max", "min_val", "max_val") if name in op.arguments]
    limits = [op.arguments[name] for name in names if op.arguments[name] is not None]
    return not limits or any(not isinstance(n, (int, float)) or n == 0 for n in limits)


def _dies_out(record: Operator) -> bool:
    """Tell whether a function dips and nears zero at low numbers, though not at minus infinity."""
    dips = record.monotone is Monotone.NO and record.zero_at_minus_inf is None
    return dips and record.least is not None and math.isfinite(record.least)


class Sparsity:
    """Zeros and limits in each storage, from its makers.

    Args:
        makers: the ops that make or write each storage, in program order.
        sparse: arguments that may hold zeros by the way they are made.
        ordered: arguments that a sort or a running sum made.
    """

    def __init__(
        self,
        makers: Mapping[int, Sequence[TracedOp]],
        sparse: frozenset[int] = frozenset(),
        ordered: frozenset[int] = frozenset(),
    ) -> None:
        self._makers, self._sparse, self._ordered = makers, sparse, ordered
        # Without memory a recurrence of n steps is walked in 2^n ways.
        self._zeros_in = functools.cache(self._search_zeros)
        self._infinities_in = functools.cache(self._search_infinities)
        self._limits_in = functools.cache(self._search_limits)

    def may_be_zero(self, use: TensorUse, cut: bool = False, depth: int = 0) -> bool:
        """Tell whether the data may hold zeros that a kernel can skip.

        Args:
            use: the tensor.
            cut: whether the zeros of a ReLU or a clamp count too, and those of a single term of a
                sum.
            depth: of the recursion.
        """
        if use.dtype is torch.bool or use.storage in self._sparse or depth > _DEEP:
            return True
        return self._zeros_in(use.storage, cut, depth + 1)

    def _search_zeros(self, storage: int, cut: bool, depth: int) -> bool:
        return any(self._zeroes(op, cut, depth) for op in self._makers.get(storage, ()))

    def _zeroes(self, op: TracedOp, cut: bool, depth: int) -> bool:
        record = op.operator
        if _makes_zeros(op) or (cut and _cuts_to_zero(op)):
            return True
        if op.inputs and _vanishes(op) and self._may_be_infinite(op.inputs[0], depth):
            return True
        if record.reduces in _OF_LINES:  # a ReLU hardly leaves a long line of zeros
            cut = cut and op.inputs[0].numel <= _FEW * op.result.numel
        passes = (
            record.zero_at_zero is not False or record.reduces in _OF_LINES or (cut and record.sums)
        )
        return passes and any(self.may_be_zero(source, cut, depth) for source in _sources(op))

    def _may_be_infinite(self, use: TensorUse, depth: int) -> bool:
        """Tell whether a mask may have put minus infinity into scores."""
        if depth > _DEEP:
            return True
        return self._infinities_in(use.storage, depth)

    def _search_infinities(self, storage: int, depth: int) -> bool:
        return any(self._hides(op, depth) for op in self._makers.get(storage, ()))

    def _hides(self, op: TracedOp, depth: int) -> bool:
        """Tell whether an op adds a mask of minus infinity, or keeps one."""
        record, filling = op.operator, _filling(op)
        if _makes_zeros(op) or (isinstance(filling, float) and filling <= HIDDEN):
            return True
        if record.sums and any(self._is_bias(operand) for operand in op.inputs):
            return True
        if record.minus_inf_at_zero and any(self.may_be_zero(i, False, depth) for i in op.inputs):
            return True
        keeps = record.keeps_minus_inf is not False or record.sums
        return keeps and any(self._may_be_infinite(source, depth + 1) for source in _sources(op))

    def _is_bias(self, use: TensorUse) -> bool:
        """Tell whether it is an argument with a value for each score, which may be a mask."""
        return not self._makers.get(use.storage) and sum(n > 1 for n in use.shape) > 1

    def cancels(self, reader: TracedOp, seen: TensorUse, other: TensorUse) -> bool:
        """Tell whether zeros in one factor of a product may leave parts of the other one unread."""
        if reader.operator.divides and other is reader.arguments.get("other"):
            return False  # a zero below a fraction cancels nothing
        if self.may_be_zero(other):
            return True
        if reader.operator.family is Family.POINTWISE:  # a gate that is zero cancels a whole row
            is_gate = other.distinct < reader.result.numel
            return is_gate and (self.may_be_zero(other, cut=True) or self.may_fade(other))
        if not reader.operator.factors or len(other.shape) < 2:
            return False
        if self.may_fade(other, unbounded=True):
            return True
        if reader.result.shape == other.shape == seen.shape:
            return False
        is_lhs = reader.inputs and other is reader.inputs[-2 if len(reader.inputs) > 1 else 0]
        rows = other.shape[-2] if is_lhs else other.shape[-1]
        return rows <= _FEW and self.may_be_zero(other, cut=True)

    def may_fade(self, use: TensorUse, unbounded: bool = False, depth: int = 0) -> bool:
        """Tell whether the data may make most elements so small that they do not count.

        A softmax of scores that differ much is next to zero but for a few elements, and a sigmoid
        of -200 is zero.

        Args:
            use: the tensor.
            unbounded: whether only functions count that tell apart large values, as a softmax and
                an exponential do; the others leave single zeros.
            depth: of the recursion.
        """
        makers = self._makers.get(use.storage, ())
        return depth <= _DEEP and any(self._fades(op, unbounded, depth) for op in makers)

    def _fades(self, op: TracedOp, unbounded: bool, depth: int) -> bool:
        record = op.operator
        if _dies_out(record):
            return not unbounded
        if record.zero_at_minus_inf:
            tells = record.normalises is not None or (record.replaces and record.most == math.inf)
            return bool(tells) or not unbounded
        passes = record.moves or (record.linear and record.multiplies)
        sources = op.inputs[:1] if record.divides else _sources(op)
        return bool(passes) and any(self.may_fade(i, unbounded, depth + 1) for i in sources)

    def ends_early(self, reader: TracedOp, seen: TensorUse) -> bool:
        """Tell whether an op may know its result before it has seen all of an operand."""
        selects = reader.operator.selects
        if selects is Selects.AFTER_ONE:
            return True
        above, below = self.limits(seen)
        if is_infinite_norm(reader):  # the largest size, or the least
            return above or below
        largest = selects in (Selects.AFTER_LARGEST, Selects.AFTER_EITHER)
        least = selects in (Selects.AFTER_LEAST, Selects.AFTER_EITHER)
        orders = largest or least or reader.operator.family is Family.ORDER
        if orders and seen.storage in self._ordered:
            return True  # rows that come sorted have their largest at an end
        return (largest and above) or (least and below)

    def limits(self, use: TensorUse, depth: int = 0) -> tuple[bool, bool]:
        """Tell whether the values of a tensor have a largest and a least value."""
        if not use.dtype.is_floating_point:
            return True, True
        return self._limits_in(use.storage, depth)

    def _search_limits(self, storage: int, depth: int) -> tuple[bool, bool]:
        limits = [self._limits_of(op, depth) for op in self._makers.get(storage, ())]
        return any(above for above, _ in limits), any(below for _, below in limits)

    def _limits_of(self, op: TracedOp, depth: int) -> tuple[bool, bool]:
        record = op.operator
        above, below = (
            limit is None or math.isfinite(limit) for limit in (record.most, record.least)
        )
        if record.monotone is Monotone.NO or depth >= _DEEP:
            return above, below
        for highest, lowest in (self.limits(source, depth + 1) for source in _sources(op)):
            either = (highest or lowest) and record.monotone is not Monotone.RISING
            above, below = above or highest or either, below or lowest or either
        return above, below
