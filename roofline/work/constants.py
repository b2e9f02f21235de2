"""Results that algebra fixes, whatever finite values the inputs hold.

The softmax of one element is 1 and what a softmax makes sums to 1; the mean, the sum or the largest
of one element is that element, so their difference is 0; what is at most 0 is 0 after a ReLU; a
sigmoid is never above 2; ``x ** 0`` is 1.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import torch

from solkit.ops import Family, Normalised, OfOne, Reduction
from solkit.roofline.work.program import TensorUse, TracedOp

Range = tuple[float, float]

_SUMS = (Reduction.SUM, Reduction.MEAN)
_FEW = 1 << 16  # known values that are searched for the largest one


class Fixed:
    """Knowledge of the results of a program so far. Takes the ops in program order.

    Args:
        rewritten: storages that the program writes in place; nothing is known of them.
        drawn: ranges of arguments by storage, by the way they are drawn.
    """

    def __init__(self, rewritten: set[int], drawn: Mapping[int, Range] | None = None) -> None:
        self._rewritten = rewritten
        self._normalised: dict[TensorUse, int] = {}
        self._same: dict[TensorUse, TensorUse] = {}
        self._ranges: dict[int, Range] = dict(drawn or {})

    def range_of(self, use: TensorUse) -> Range:
        """Return the least and the largest value of a tensor, infinite where unknown.

        Known contents of an argument count, though a program cannot rely on them.
        """
        value = use.value
        if value is not None and 0 < value.size <= _FEW and value.dtype.kind in "biuf":
            return float(value.min()), float(value.max())
        return self._known(use)

    def _known(self, use: TensorUse) -> Range:
        if use.storage in self._rewritten:
            return _ANY
        return self._ranges.get(use.storage, _OF_DTYPE.get(use.dtype, _ANY))

    def fixes(self, op: TracedOp) -> bool:
        """Tell whether every element of an op's results follows from the program."""
        if not op.inputs or op.written:
            return False
        record, x = op.operator, op.inputs[0]
        if record.of_one is OfOne.CONSTANT and _is_over_copies(op, x):  # whatever was written there
            return all(use.storage not in self._rewritten for use in op.outputs)
        if not self._is_steady(op):
            return False
        if record.reduces in _SUMS and x in self._normalised:
            return self._normalised[x] in _reduced(op, x)
        if record.cancels_equal and len(op.inputs) == 2:
            lhs, rhs = (self._same.get(use, use) for use in op.inputs)
            return lhs == rhs and op.arguments.get("alpha", 1) == 1
        low, high = self._range(op)
        return low == high

    def is_zero(self, op: TracedOp) -> bool:
        """Tell whether what `fixes` an op makes its first result zero all over."""
        return op.operator.cancels_equal or self._range(op) == (0.0, 0.0)

    def learn(self, op: TracedOp) -> None:
        """Remember what is known of an op's first result."""
        if op.operator.family is Family.RANDOM and self._is_steady(op):
            self._ranges[op.result.storage] = _drawn_range(op)
        if not op.inputs or op.written or not op.outputs or not self._is_steady(op):
            return
        record, x, out = op.operator, op.inputs[0], op.outputs[0]
        if record.normalises is Normalised.SUM_ONE:
            self._normalised[out] = op.arguments["dim"] % max(1, len(x.shape))
        if op.outputs[-1].dtype is torch.int64 and (record.chooses or len(op.outputs) == 2):
            self._ranges[op.outputs[-1].storage] = _places(op, x)
            if len(op.outputs) == 1:
                return
        alike = (out.shape, out.dtype) == (x.shape, x.dtype)
        if record.of_one is OfOne.ITSELF and alike and _is_over_one(op, x):
            self._same[out] = self._same.get(x, x)
        limits = self._range(op)
        if limits != _ANY:
            self._ranges[out.storage] = limits

    def _is_steady(self, op: TracedOp) -> bool:
        return all(use.storage not in self._rewritten for use in (*op.inputs, *op.outputs))

    def _range(self, op: TracedOp) -> Range:
        record = op.operator
        if record.compares:
            return self._compared(op, record.compares)
        if record.family is Family.PRODUCT and record.factors:
            return self._of_product(op)
        limits = self._known(op.inputs[0])
        result = _RANGES[record.limits](op, limits) if record.limits else _own_range(op)
        inexact = op.outputs[0].dtype.is_floating_point
        if result is None or (record.wraps and not inexact and not _fits(result, op.outputs[0])):
            return _ANY
        rounds = record.rounds and result[0] != result[1] and inexact
        return (result[0] - _ulps(result[0]), result[1] + _ulps(result[1])) if rounds else result

    def _of_product(self, op: TracedOp) -> Range:
        """Return the sign of sums of products, of factors that are never negative."""
        added = op.operator.adds_terms and op.arguments.get("beta", 1) != 0
        named = [op.arguments[name] for name in op.operator.factors]
        positive = all(self._known(use)[0] >= 0 for use in named) and not added
        return (0.0, math.inf) if positive and op.outputs[0].dtype.is_floating_point else _ANY

    def _compared(self, op: TracedOp, comparison: str) -> Range:
        """Return a comparison that always has the same result: 0 or 1."""
        least, most = self._known(op.inputs[0])
        limit = known_number(op.arguments.get("other"))
        if limit is None or op.inputs[0] is not op.arguments["self"]:
            return 0.0, 1.0
        never, always = {
            "gt": (most <= limit, least > limit),
            "ge": (most < limit, least >= limit),
            "lt": (least >= limit, most < limit),
            "le": (least > limit, most <= limit),
            "eq": (not least <= limit <= most, least == limit == most),
            "ne": (least == limit == most, not least <= limit <= most),
        }[comparison]
        return float(always), float(not never)


def _reduced(op: TracedOp, x: TensorUse) -> list[int]:
    """Return the dimensions that a reduction is over."""
    dim = op.arguments.get("dim")
    if dim is None or dim == []:
        return list(range(len(x.shape)))
    return [d % max(1, len(x.shape)) for d in (dim if isinstance(dim, (list, tuple)) else [dim])]


def _places(op: TracedOp, x: TensorUse) -> Range:
    """Return the range of an index of what was chosen along a dimension, or of all."""
    dim = op.arguments.get("dim", -1 if op.operator.family is Family.ORDER else None)
    along = x.shape[dim] if isinstance(dim, int) and x.shape else x.numel
    return 0.0, float(max(along - 1, 0))


def _is_over_copies(op: TracedOp, x: TensorUse) -> bool:
    """Tell whether each line that an op reduces, or normalises, holds one number alone."""
    return all(x.shape[d] == 1 or x.stride[d] == 0 for d in _reduced(op, x) if x.shape)


def _is_over_one(op: TracedOp, x: TensorUse) -> bool:
    return not x.shape or all(x.shape[d] == 1 for d in _reduced(op, x))


# ---------------------------------------------------------------------------------- ranges

_ANY = (-math.inf, math.inf)
_OF_DTYPE = {torch.bool: (0.0, 1.0), torch.uint8: (0.0, 255.0), torch.int8: (-128.0, 127.0)}


_Rule = Callable[[TracedOp, Range], "Range | None"]


def _ulps(limit: float) -> float:
    """More than the rounding of any dtype: bf16 keeps 8 bits."""
    return abs(limit) / 64 if math.isfinite(limit) else 0.0


def known_number(value: object) -> float | None:
    """Return a number, also of a tensor that holds only one; ``None`` if it is not known."""
    if isinstance(value, TensorUse):
        numbers = None if value.value is None else value.value.ravel()
        if numbers is None or not numbers.size or not (numbers == numbers[0]).all():
            return None
        value = numbers[0].item()
    return float(value) if isinstance(value, (bool, int, float)) else None


def _between(least: object, most: object, op: TracedOp, limits: Range) -> Range | None:
    """Return the limits that a clamp lets through; ``None`` where a limit is not known."""
    if op.inputs[0] is not op.arguments["self"]:
        return None
    low = -math.inf if least is None else known_number(least)
    high = math.inf if most is None else known_number(most)
    if low is None or high is None:
        return None
    least, most = (min(max(end, low), high) for end in limits)
    return least, most


def _clamp(op: TracedOp, limits: Range) -> Range | None:
    return _between(op.arguments.get("min"), op.arguments.get("max"), op, limits)


def _hardtanh(op: TracedOp, limits: Range) -> Range | None:
    least, most = op.arguments.get("min_val", -1), op.arguments.get("max_val", 1)
    return _between(least, most, op, limits)


def _own_range(op: TracedOp) -> Range | None:
    """Return the limits of all results, whatever a function is given; ``None`` where unknown."""
    least, most = op.operator.least, op.operator.most
    if least is None or most is None or not op.outputs[0].dtype.is_floating_point:
        return None
    return least, most


def _scaled(op: TracedOp, limits: Range) -> Range | None:
    """Return a product or a quotient with a number."""
    factor = known_number(op.arguments.get("other"))
    if factor is None or op.inputs[0] is not op.arguments["self"]:
        same = len(op.inputs) > 1 and op.inputs[0] == op.inputs[1]
        return (0.0, math.inf) if same and not op.operator.divides else None
    if op.operator.divides:
        if op.arguments.get("rounding_mode") or not factor:
            return None
        factor = 1 / factor
    dtype = op.outputs[0].dtype
    if not factor and not (dtype.is_floating_point or dtype.is_complex):
        return 0.0, 0.0
    if not factor and not all(map(math.isfinite, limits)):
        return None  # what overflows makes NaN
    ends = sorted(end * factor for end in limits)
    return ends[0], ends[1]


def _moved(op: TracedOp, limits: Range) -> Range | None:
    """Return a sum or a difference with a number."""
    step = known_number(op.arguments.get("other"))
    if step is None or op.inputs[0] is not op.arguments["self"]:
        return None
    step *= float(op.arguments.get("alpha", 1))
    step = -step if op.operator.cancels_equal else step
    return limits[0] + step, limits[1] + step


def _power(op: TracedOp, _: Range) -> Range | None:
    exponent = known_number(op.arguments.get("exponent"))
    if exponent == 0:
        return 1.0, 1.0
    even = exponent is not None and exponent % 2 == 0 and exponent > 0
    return (0.0, math.inf) if even else None


def _absolute(_: TracedOp, limits: Range) -> Range:
    low, high = limits
    least = 0.0 if low <= 0 <= high else min(abs(low), abs(high))
    return least, max(abs(low), abs(high))


_WIDE = (torch.int32, torch.int64)


def _fits(limits: Range, out: TensorUse) -> bool:
    """Tell whether integers between limits cannot overflow."""
    return out.dtype in _WIDE and all(abs(end) < 2**31 for end in limits)


def _remainder(op: TracedOp, _: Range) -> Range | None:
    """Return the range of what a positive number leaves."""
    divisor = known_number(op.arguments.get("other"))
    if divisor is None or divisor <= 0 or op.inputs[0] is not op.arguments["self"]:
        return None
    return 0.0, divisor if op.outputs[0].dtype.is_floating_point else divisor - 1


def _common_bits(op: TracedOp, _: Range) -> Range | None:
    """Return the range of the bits that a number has too."""
    bits = known_number(op.arguments.get("other"))
    return None if bits is None or bits < 0 else (0.0, bits)


def _shifted_right(op: TracedOp, limits: Range) -> Range | None:
    """Return the range of numbers that are not negative, without their lowest bits."""
    return (0.0, limits[1]) if limits[0] >= 0 and op.inputs[0] is op.arguments["self"] else None


def _bins(op: TracedOp, _: Range) -> Range:
    """Return the range of the bin that a number falls into."""
    edges = op.arguments.get("boundaries", op.arguments.get("sorted_sequence"))
    return 0.0, float(edges.shape[-1]) if isinstance(edges, TensorUse) else math.inf


def _summed(op: TracedOp, limits: Range) -> Range | None:
    """Return the sign of a sum, where its terms have one."""
    if not op.outputs[0].dtype.is_floating_point:
        return None
    return (0.0 if limits[0] >= 0 else -math.inf), (0.0 if limits[1] <= 0 else math.inf)


_FARTHEST = 9.0
"""No normal number that is drawn is as far from the mean, in deviations: of 2^53 uniform ones
Box and Muller's method makes at most sqrt(2 log 2^53) = 8.6."""


def _drawn_range(op: TracedOp) -> Range:
    """Return the range of drawn numbers; unknown where arguments say more than numbers."""
    name, arguments = op.name.removeprefix("aten.").removesuffix("_like"), op.arguments
    if name == "rand":
        return 0.0, 1.0
    if name == "randn":
        return -_FARTHEST, _FARTHEST
    if name == "uniform_":
        return float(arguments.get("from", 0)), float(arguments.get("to", 1))
    if name == "normal_":
        mean, deviation = float(arguments.get("mean", 0)), float(arguments.get("std", 1))
        return mean - _FARTHEST * deviation, mean + _FARTHEST * deviation
    if name == "randint":
        return float(arguments.get("low", 0)), float(arguments["high"] - 1)
    if name == "randperm":
        return 0.0, float(max(op.result.numel - 1, 0))
    return (0.0, 1.0) if name == "bernoulli_" else _ANY


def _kept(op: TracedOp, limits: Range) -> Range | None:
    """Return the limits of ops that leave the values, or pick or average some of them."""
    if op.outputs[0].dtype.is_floating_point:
        return limits
    limits = math.floor(limits[0]) if math.isfinite(limits[0]) else limits[0], limits[1]
    return limits if _fits(limits, op.outputs[0]) else None


_RANGES: dict[str, _Rule] = {
    "rectified": lambda op, limits: _between(0.0, None, op, limits),
    "clamp": _clamp,
    "hardtanh": _hardtanh,
    "minimum": lambda op, limits: _between(None, op.arguments["other"], op, limits),
    "maximum": lambda op, limits: _between(op.arguments["other"], None, op, limits),
    "absolute": _absolute,
    "negated": lambda _, limits: (-limits[1], -limits[0]),
    "scaled": _scaled,
    "moved": _moved,
    "power": _power,
    "summed": _summed,
    "remainder": _remainder,
    "common bits": _common_bits,
    "shifted right": _shifted_right,
    "bins": _bins,
    "kept": _kept,
}
"""The range of a first result, from the op and the range of its first operand."""
