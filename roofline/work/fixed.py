"""Results that algebra fixes, whatever finite values the inputs hold.

The softmax of one element is 1 and what a softmax makes sums to 1; the mean, the sum or the largest
of one element is that element, so their difference is 0; what is at most 0 is 0 after a ReLU.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from solkit.roofline.work.program import TensorUse, TracedOp

__all__ = ["Fixed"]

Range = tuple[float, float]

_NORMALISING = {"_softmax", "_safe_softmax"}
_SOFTMAXES = _NORMALISING | {"_log_softmax"}
_OF_ONE_ITSELF = set("sum mean amax amin max min prod logsumexp nansum median nanmedian".split())
_OF_ONE_NOTHING = {"var", "std"}
_DIFFERENCES = {"sub", "rsub"}


class Fixed:
    """What is known of the results of a program so far; ask of its ops in their order.

    Args:
        rewritten: storages that the program writes in place, of which nothing is known.
    """

    def __init__(self, rewritten: set[int]) -> None:
        self._rewritten = rewritten
        self._normalised: dict[TensorUse, int] = {}
        self._same: dict[TensorUse, TensorUse] = {}
        self._ranges: dict[TensorUse, Range] = {}

    def fixes(self, op: TracedOp) -> bool:
        """Whether every element of an op's results follows from the program."""
        if not op.inputs or op.written or not self._is_steady(op):
            return False
        base = op.name.removeprefix("aten.")
        x = op.inputs[0]
        if base in _SOFTMAXES or base in _OF_ONE_NOTHING:
            return _is_over_one(op, x)
        if base == "sum" and x in self._normalised:
            return self._normalised[x] in _reduced(op, x)
        if base in _DIFFERENCES and len(op.inputs) == 2:
            left, right = (self._same.get(use, use) for use in op.inputs)
            return left == right and op.arguments.get("alpha", 1) == 1
        low, high = self._range(op)
        return low == high

    def learn(self, op: TracedOp) -> None:
        """Remember what is known of an op's first result."""
        if not op.inputs or op.written or not op.outputs or not self._is_steady(op):
            return
        base = op.name.removeprefix("aten.")
        x, out = op.inputs[0], op.outputs[0]
        if base in _NORMALISING:
            self._normalised[out] = op.arguments["dim"] % max(1, len(x.shape))
        alike = (out.shape, out.dtype) == (x.shape, x.dtype)
        if base in _OF_ONE_ITSELF and alike and _is_over_one(op, x):
            self._same[out] = self._same.get(x, x)
        found = self._range(op)
        if found != _ANY:
            self._ranges[out] = found

    def _is_steady(self, op: TracedOp) -> bool:
        return all(use.storage not in self._rewritten for use in (*op.inputs, *op.outputs))

    def _range(self, op: TracedOp) -> Range:
        limits = _LIMITS.get(op.name.removeprefix("aten."))
        found = limits(op) if limits else None
        if found is None:
            return _ANY
        least, most = found
        low, high = (min(max(x, least), most) for x in self._ranges.get(op.inputs[0], _ANY))
        return low, high


def _reduced(op: TracedOp, x: TensorUse) -> list[int]:
    """The dimensions that a reduction is over."""
    dim = op.arguments.get("dim")
    if dim is None or dim == []:
        return list(range(len(x.shape)))
    return [d % max(1, len(x.shape)) for d in (dim if isinstance(dim, (list, tuple)) else [dim])]


def _is_over_one(op: TracedOp, x: TensorUse) -> bool:
    return not x.shape or all(x.shape[d] == 1 for d in _reduced(op, x))


# ---------------------------------------------------------------------------------- ranges

_ANY = (-math.inf, math.inf)


def _limited(op: TracedOp, least: object = None, most: object = None) -> Range | None:
    """Limits as numbers; ``None`` where one is a tensor that is not known or has several values."""
    if op.inputs[0] is not op.arguments["self"]:
        return None
    numbers = []
    for limit, without in ((least, -math.inf), (most, math.inf)):
        if isinstance(limit, TensorUse):
            if limit.value is None or len(found := set(limit.value.ravel().tolist())) != 1:
                return None
            limit = found.pop()
        numbers.append(without if limit is None else float(limit))  # type: ignore[arg-type]
    return numbers[0], numbers[1]


def _clamp(op: TracedOp) -> Range | None:
    return _limited(op, op.arguments.get("min"), op.arguments.get("max"))


_LIMITS: dict[str, Callable[[TracedOp], Range | None]] = {
    "relu": lambda op: _limited(op, least=0.0),
    "clamp": _clamp,
    "clamp_min": _clamp,
    "clamp_max": _clamp,
    "hardtanh": lambda op: _limited(
        op, op.arguments.get("min_val", -1), op.arguments.get("max_val", 1)
    ),
    "minimum": lambda op: _limited(op, most=op.arguments["other"]),
    "maximum": lambda op: _limited(op, least=op.arguments["other"]),
}
"""The least and the most that an op lets through."""
