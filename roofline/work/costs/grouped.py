"""Grouped products: the experts of a mixture, each on its own rows."""

from __future__ import annotations

from solkit.roofline.work.costs._base import Cost, contraction, rule
from solkit.roofline.work.program import TensorUse, TracedOp


@rule("_grouped_mm _scaled_grouped_mm _scaled_grouped_mm_v2")
def _grouped_mm(op: TracedOp) -> Cost:
    """Groups of rows, of columns or of the inner dimension, as `offs` divides them.

    ::

        [M, K] x [G, K, N]      each row meets one matrix          M K N
        [G, M, K] x [K, N]      each column meets one matrix       M K N
        [M, K] x [K, N]         G products of parts of K           M K N
        [G, M, K] x [G, K, N]   a batch                          G M K N
    """
    left, right = op.inputs[0], op.inputs[1]
    if len(left.shape) == 3 and len(right.shape) == 2:
        return contraction(left, _used(op, right.shape[-1]) * left.shape[-2] * left.shape[-1])
    if len(right.shape) == 2:  # the inner dimension is divided
        return contraction(left, left.shape[-2] * _used(op, left.shape[-1]) * right.shape[-1])
    if len(left.shape) == 2:
        return contraction(left, _used(op, left.shape[-2]) * left.shape[-1] * right.shape[-1])
    return contraction(left, left.numel * right.shape[-1])


def _used(op: TracedOp, size: int) -> int:
    """How much of the divided dimension belongs to a group: all of it, where that is unknown."""
    ends = op.arguments.get("offs")
    if isinstance(ends, TensorUse) and ends.value is not None and ends.value.size:
        return min(int(ends.value[-1]), size)
    return size
