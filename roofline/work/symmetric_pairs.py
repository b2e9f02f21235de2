"""Pairs within one set: what is alike for (i, j) and (j, i), but for the sign, is computed once.

``x[:, None] - x`` changes its sign where i and j change places. Even functions of that, products of
two such differences, and norms along further dimensions do not. Elementwise ops then take the pairs
i <= j alone, and so do reductions over both. A reduction over one of the two visits each pair, as
the terms of all lines differ.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from solkit.ops import Family, Reduction
from solkit.roofline.work.broadcast import dimensions_of
from solkit.roofline.work.costs import Cost
from solkit.roofline.work.program import TensorUse, TracedOp

_Axes = tuple[int, int]
_LARGE = 8  # points from which the pairs i <= j are fewer by enough to count


@dataclass(frozen=True)
class _Symmetric:
    """A tensor that exchanging two axes leaves as it is, or negates.

    Attributes:
        whole: the tensor, as its op makes it.
        axes: the two.
        sign: 1, or -1 where exchanging them changes the sign.
    """

    whole: TensorUse
    axes: _Axes
    sign: int


def with_symmetric_pairs(
    ops: Sequence[TracedOp], costs: Sequence[Cost | None]
) -> list[Cost | None]:
    """Return the costs of ops, those of symmetric tensors for one of each two pairs.

    Products and distances are left as they are: their own rules know triangles.

    Args:
        ops: in program order.
        costs: of each; ``None`` if unknown.
    """
    tensors: dict[int, _Symmetric] = {}
    reduced = list(costs)
    for position, op in enumerate(ops):
        result = _result_of(op, tensors)
        cost = reduced[position]
        axes = None if result is None else result.axes
        if result is None and _is_over_both(op, tensors):
            source = tensors[op.inputs[0].storage]
            axes, shape = source.axes, source.whole.shape
        elif result is not None:
            shape = result.whole.shape
        is_alike = result is None or _is_symmetric_mask(result)
        if cost is not None and axes is not None and is_alike and not _is_product(op, cost):
            points = shape[axes[0]]
            share = (points + 1) / (2 * points) if points >= _LARGE else 1.0
            counts = {key: math.ceil(n * share) for key, n in cost.operations.items()}
            reduced[position] = Cost(counts)
        for use in op.stored:
            if not (op.written and _is_filled_diagonal(op, use, tensors.get(use.storage))):
                tensors.pop(use.storage, None)
        if result is not None and _is_symmetric_mask(result):
            tensors[op.result.storage] = result
    return reduced


def _is_symmetric_mask(symmetric: _Symmetric) -> bool:
    """Tell whether what matters of a tensor is alike on both sides of its diagonal."""
    mask, (first, second) = symmetric.whole.mask, symmetric.axes
    return mask is None or np.array_equal(mask, np.swapaxes(mask, first, second))


def _is_filled_diagonal(op: TracedOp, use: TensorUse, symmetric: _Symmetric | None) -> bool:
    """Tell whether an op writes one number to the diagonal of a symmetric matrix."""
    if symmetric is None or op.inputs or len(symmetric.whole.shape) != 2:
        return False
    whole = symmetric.whole
    is_diagonal = use.offset == whole.offset and use.stride == (sum(whole.stride),)
    return op.name == "aten.fill_" and is_diagonal


def _is_product(op: TracedOp, cost: Cost) -> bool:
    is_triangle = op.operator.family in (Family.PRODUCT, Family.DISTANCE)
    return is_triangle or any(key.startswith("contraction.") for key in cost.operations)


def _result_of(op: TracedOp, tensors: dict[int, _Symmetric]) -> _Symmetric | None:
    """Return an op's result as a symmetric tensor; ``None`` of other results."""
    result = op.result
    if not op.inputs or len(op.stored) != 1:
        return None
    if op.is_symmetric and op.outputs:
        return _Symmetric(result, (len(result.shape) - 2, len(result.shape) - 1), 1)
    if op.operator.family is Family.REDUCTION and len(op.inputs) == 1:
        return _reduced(op, tensors)
    copies = op.operator.aligned and op.operator.moves and not op.operator.makes_zeros
    if not (copies or torch.Tag.pointwise in op.tags) or not all(result.stride):
        return None
    if op.operator.random:
        return None
    if op.written and op.written[0] not in op.inputs:
        return None
    crossed = _crossed(op)
    if crossed is not None:
        return crossed
    seen = [_seen(use, tensors) for use in op.inputs]
    rank = len(result.shape)
    axes = {
        (s.axes[0] + rank - len(s.whole.shape), s.axes[1] + rank - len(s.whole.shape))
        for s in seen
        if s is not None
    }
    if len(axes) != 1:
        return None
    ((first, second),) = axes
    signs = []
    for use, symmetric in zip(op.inputs, seen):
        if symmetric is not None:
            signs.append(symmetric.sign)
        elif not {first, second} & _moving(use, rank):
            signs.append(1)
        else:
            return None
    sign = _sign_of(op, signs)
    return None if sign is None else _Symmetric(result, (first, second), sign)


def _sign_of(op: TracedOp, signs: Sequence[int]) -> int | None:
    """Return the sign of what an op makes of symmetric tensors; ``None`` where there is none."""
    record = op.operator
    if all(sign == 1 for sign in signs):
        return 1
    if record.linear and (record.multiplies or record.divides) and not record.sums:
        return math.prod(signs)
    if len(signs) == 1 and (record.parity or record.negates or record.moves):
        return 1 if record.parity == 1 else -1
    if record.cost == "power" and len(signs) == 1 and op.arguments.get("exponent") in (2, 4, 6):
        return 1
    both = len(signs) == len(op.inputs) == 2 and all(sign == -1 for sign in signs)
    return -1 if both and record.linear and record.sums and not record.multiplies else None


def _crossed(op: TracedOp) -> _Symmetric | None:
    """Return what an op makes of one tensor along two axes: of ``x[:, None]`` and ``x``."""
    record, result = op.operator, op.result
    if len(op.inputs) != 2 or op.arguments.get("alpha", 1) != 1 or op.written:
        return None
    one, other = op.inputs
    if (one.storage, one.offset, one.dtype) != (other.storage, other.offset, other.dtype):
        return None
    rank = len(result.shape)
    first, second = _moving(one, rank), _moving(other, rank)
    if len(first - second) != 1 or len(second - first) != 1:
        return None
    i, j = (first - second).pop(), (second - first).pop()
    steps = [
        {d: (use.shape[d - shift], use.stride[d - shift]) for d in dims}
        for use, dims in ((one, first), (other, second))
        for shift in [rank - len(use.shape)]
    ]
    if steps[0].pop(i) != steps[1].pop(j) or steps[0] != steps[1]:
        return None
    is_even = record.commutes or record.compares in ("eq", "ne")
    is_difference = record.sums and record.linear and not record.commutes
    sign = 1 if is_even else -1 if is_difference else 0
    return _Symmetric(result, (min(i, j), max(i, j)), sign) if sign else None


def _reduced(op: TracedOp, tensors: dict[int, _Symmetric]) -> _Symmetric | None:
    """Return what a reduction over other dimensions makes of a symmetric tensor."""
    source, kind = _seen(op.inputs[0], tensors), op.operator.reduces
    if source is None or (source.sign != 1 and kind not in (Reduction.SUM, Reduction.NORM)):
        return None
    over = set(dimensions_of(op, op.inputs[0]))
    if over & set(source.axes) or len(op.outputs) != 1:
        return None
    keeps = len(op.result.shape) == len(source.whole.shape)
    first, second = (a if keeps else a - sum(d < a for d in over) for a in source.axes)
    sign = 1 if kind is Reduction.NORM else source.sign
    return _Symmetric(op.result, (first, second), sign)


def _is_over_both(op: TracedOp, tensors: dict[int, _Symmetric]) -> bool:
    """Tell whether a reduction is over both axes of a tensor that keeps its sign."""
    if op.operator.family is not Family.REDUCTION or len(op.inputs) != 1 or op.written:
        return False
    source = _seen(op.inputs[0], tensors)
    over = set(dimensions_of(op, op.inputs[0]))
    return source is not None and source.sign == 1 and set(source.axes) <= over


def _seen(use: TensorUse, tensors: dict[int, _Symmetric]) -> _Symmetric | None:
    """Return the symmetric tensor that a use sees whole, in the same dimensions."""
    source = tensors.get(use.storage)
    if source is None:
        return None
    whole = source.whole
    same = (use.shape, use.stride, use.offset) == (whole.shape, whole.stride, whole.offset)
    return source if same else None


def _moving(use: TensorUse, rank: int) -> set[int]:
    """Return the dimensions of a broadcast along which an operand varies."""
    dims = enumerate(zip(use.shape, use.stride), rank - len(use.shape))
    return {d for d, (n, step) in dims if n > 1 and step}
