"""Results that are known before all operands are read, since little is demanded of them.

``x.amax(1) > 0`` is true after one positive element, ``x.abs().sum(1) > 100`` once the sum is
there, and ``x.amax(1).clamp(max=1)`` is 1 once an element is larger. Walking backwards from the
results, `Demand` says on which sides what becomes of a value is flat: where a value that is large
enough, or low enough, gives the same result as any other one. A reduction whose result may only
grow as it goes through its elements is then done early, if the data say so, so none of its elements
is sure to be read.

What no record says (`solkit.ops`) is taken to be flat, and to be known early.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from solkit.ops import Family, Monotone, Operator, Reduction, Selects
from solkit.roofline.work.constants import Fixed
from solkit.roofline.work.program import TensorUse, TracedOp
from solkit.roofline.work.sparsity import Sparsity

_SUMS = (Reduction.SUM, Reduction.MEAN, Reduction.WINDOW_MEAN)
_RISING = (Reduction.LARGEST, Reduction.LOG_SUM_EXP, Reduction.NORM)
"""Reductions that no further element makes smaller."""
_WHOLE = (Family.COPY, Family.MOVE, Family.LOOKUP, Family.SCATTER, Family.CREATION, Family.FILL)
_FEW = 16  # results; where an element meets more of them, hardly all of them are settled
_MIXING = (Family.PRODUCT, Family.CONVOLUTION, Family.ATTENTION)
_SIDES = {
    "rectified": (False, True),
    "hardtanh": (True, True),
    "minimum": (True, False),
    "maximum": (False, True),
}
"""Sides, above and below, on which functions with these `Operator.limits` are flat."""


@dataclass(frozen=True)
class Demand:
    """Sides on which what becomes of a value is flat.

    Attributes:
        above: whether all values that are large enough give the same.
        below: whether all that are low enough do.
    """

    above: bool = False
    below: bool = False

    def __and__(self, other: Demand) -> Demand:
        return Demand(self.above and other.above, self.below and other.below)

    def __bool__(self) -> bool:
        return self.above or self.below


def saturates(op: TracedOp) -> bool:
    """Tell whether an op is flat on both sides: only values between its limits matter."""
    sides = _flat_sides(op)
    return op.is_elementwise and sides.above and sides.below


def _flat_sides(op: TracedOp) -> Demand:
    """Return the sides on which an op is flat in any of its operands."""
    record = op.operator
    if record.compares or record.chooses or _counts(op):
        return Demand(True, True)
    if record.limits == "clamp":
        names = {"clamp_min": ("min",), "clamp_max": ("max",)}.get(
            record.name.removeprefix("aten.").removesuffix("_"), ("min", "max")
        )
        bounds = [op.arguments.get(name) is not None for name in names]
        return Demand("max" in names and bounds[-1], "min" in names and bounds[0])
    if record.limits in _SIDES:
        return Demand(*_SIDES[record.limits])
    if not op.is_elementwise or record.moves:
        return Demand()
    if record.monotone is None:
        return Demand(True, True)
    return _flat_ends(record)


def _flat_ends(record: Operator) -> Demand:
    """Return the sides on which a function of one operand nears its own limits."""
    if record.monotone in (Monotone.RISING, Monotone.FALLING):
        above, below = (
            limit is None or math.isfinite(limit) for limit in (record.most, record.least)
        )
        return Demand(above, below) if record.monotone is Monotone.RISING else Demand(below, above)
    return Demand(False, record.zero_at_minus_inf is not False)


def _rises_at_the_end(record: Operator) -> bool:
    """Tell whether larger values give larger results, at least where they are large, as a GELU."""
    fades = record.zero_at_minus_inf is not False and record.least is not None
    return record.monotone is Monotone.RISING or (record.monotone is Monotone.NO and fades)


def _counts(op: TracedOp) -> bool:
    """Tell whether floats become integers, or numbers truths."""
    floats = any(use.dtype.is_floating_point for use in op.inputs)
    numbers = any(use.dtype is not torch.bool for use in op.inputs)
    inexact = op.result.dtype.is_floating_point or op.result.dtype.is_complex
    coarser = (floats and not inexact) or (numbers and op.result.dtype is torch.bool)
    return bool(op.operator.moves and op.operator.aligned and coarser)


class EarlyExits:
    """Reductions that may be done early.

    Args:
        sparsity: limits of the values.
        fixed: ranges of the values, with those of the arguments.
    """

    def __init__(self, sparsity: Sparsity, fixed: Fixed) -> None:
        self._sparsity, self._fixed = sparsity, fixed

    def demand_on_operands(self, op: TracedOp, demand: Demand) -> Demand:
        """Return what is demanded of an op's operands, from what is demanded of its results."""
        own, order = _flat_sides(op), op.operator.monotone
        if op.operator.family in _MIXING and op.result.numel > _FEW:
            return Demand()
        if order is Monotone.FALLING:
            demand = Demand(demand.below, demand.above)
        elif not _rises_at_the_end(op.operator) and not op.operator.moves:
            demand = Demand(bool(demand), bool(demand))
        return Demand(own.above or demand.above, own.below or demand.below)

    def settles(self, op: TracedOp, seen: TensorUse, demand: Demand) -> bool:
        """Tell whether an op may have all that is demanded before it has read `seen`.

        Args:
            op: the reader.
            seen: one of its operands.
            demand: of its results.
        """
        record = op.operator
        if not demand or op.is_elementwise or record.family in _WHOLE:
            return False
        if record.moves and record.family is not Family.ORDER:
            return False
        if record.reduces in _RISING or record.selects is Selects.AFTER_LARGEST:
            return demand.above
        if record.reduces is Reduction.LEAST or record.selects is Selects.AFTER_LEAST:
            return demand.below
        if record.reduces in _SUMS or record.name in ("aten.cumsum", "aten.cumsum_"):
            return self._grows_one_way([seen], demand)
        if record.factors or record.family is Family.CONVOLUTION:
            return self._grows_one_way(op.inputs, demand)
        if record.normalises is not None or record.family is Family.NORM:
            return op.result.distinct < seen.distinct  # each element needs its own
        return True

    def _grows_one_way(self, factors: Sequence[TensorUse], demand: Demand) -> bool:
        """Tell whether a sum of such terms can only move to where more changes nothing."""
        signs = [self._sign_of(use) for use in factors]
        if not all(signs):
            return False
        rises = math.prod(signs) > 0
        bounded = len(factors) == 1 and all(self._sparsity.limits(factors[0]))
        return bounded or (demand.above if rises else demand.below)

    def _sign_of(self, use: TensorUse) -> int:
        """Return 1 of values that are never negative, -1 of never positive ones, 0 if unknown."""
        least, most = self._fixed.range_of(use)
        above, below = self._sparsity.limits(use)
        if least >= 0 or (below and not most <= 0):
            return 1
        return -1 if most <= 0 or above else 0
