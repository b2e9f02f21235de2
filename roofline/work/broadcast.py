"""Copies of one element: what is computed from them is computed once.

``x.repeat(4, 1).exp()`` takes as many exponentials as x has elements, however many copies are
written. Walking forwards, the number of different elements is carried from op to op.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch

from solkit.roofline.work.program import TensorUse, TracedOp
from solkit.roofline.work.regions import covered_bytes

__all__ = ["without_repeats"]


def without_repeats(ops: Sequence[TracedOp]) -> list[TracedOp]:
    """Return the ops, with the number of different elements of operands and results (`values`)."""
    different: dict[int, int] = {}

    def count(leaf: Any) -> Any:
        if not isinstance(leaf, TensorUse) or leaf.storage not in different:
            return leaf
        return replace(leaf, values=different[leaf.storage])

    merged = []
    for op in ops:
        if len(op.outputs) == 1 and not op.written:
            values = _values(op, different)
            if values < op.result.distinct:
                different[op.result.storage] = values
        for use in op.written:
            different.pop(use.storage, None)
        touched = any(use.storage in different for use in (*op.inputs, *op.outputs))
        merged.append(op.mapped(count) if touched else op)
    return merged


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
