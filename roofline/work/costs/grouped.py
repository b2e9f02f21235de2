"""Products of many matrices or of three tensors: experts of a mixture, bilinear layers."""

from __future__ import annotations

import math
from itertools import permutations

from solkit.roofline.work.costs._base import Cost, common_dtype, contraction, rule
from solkit.roofline.work.program import TensorUse, TracedOp


@rule("grouped product")
def _grouped_mm(op: TracedOp) -> Cost:
    """Divide the rows, the columns or the inner dimension into groups by `offs`.

    ::

        [M, K] x [G, K, N]      each row meets one matrix          M K N
        [G, M, K] x [K, N]      each column meets one matrix       M K N
        [M, K] x [K, N]         G products of parts of K           M K N
        [G, M, K] x [G, K, N]   a batch                          G M K N
    """
    lhs, rhs = op.inputs[0], op.inputs[1]
    multiply_adds = lhs.numel * rhs.shape[-1]
    if len(lhs.shape) == 3 and len(rhs.shape) == 2:
        multiply_adds = _used(op, rhs.shape[-1]) * lhs.shape[-2] * lhs.shape[-1]
    elif len(rhs.shape) == 2:  # the inner dimension is divided
        multiply_adds = lhs.shape[-2] * _used(op, lhs.shape[-1]) * rhs.shape[-1]
    elif len(lhs.shape) == 2:
        multiply_adds = _used(op, lhs.shape[-2]) * lhs.shape[-1] * rhs.shape[-1]
    return contraction(lhs, multiply_adds, dtype=common_dtype(lhs, rhs))


def _used(op: TracedOp, size: int) -> int:
    """Return the group's part of the divided dimension; all of it if unknown."""
    ends = op.arguments.get("offs")
    if isinstance(ends, TensorUse) and ends.value is not None and ends.value.size:
        return min(int(ends.value[-1]), size)
    return size


@rule("trilinear")
def _trilinear(op: TracedOp) -> Cost:
    """Sum products of three tensors (a bilinear layer): two at a time, in the best order."""
    arguments = op.arguments
    axes = len(arguments["i1"].shape) + len(arguments["expand1"])
    sizes = [_sizes(arguments[f"i{i}"], arguments[f"expand{i}"], axes) for i in (1, 2, 3)]
    summed = {d % axes for d in arguments["sumdim"]}

    def multiply_adds(a: list[int], b: list[int], c: list[int]) -> int:
        pair = [max(n, m) for n, m in zip(a, b)]
        partial = [1 if d in summed and c[d] == 1 else n for d, n in enumerate(pair)]
        return math.prod(pair) + math.prod(max(n, m) for n, m in zip(partial, c))

    return contraction(arguments["i1"], min(multiply_adds(*order) for order in permutations(sizes)))


def _sizes(use: TensorUse, expanded: list[int], axes: int) -> list[int]:
    """Return a tensor's shape with dimensions of size 1 where it is expanded."""
    sizes = iter(use.shape)
    return [1 if d in expanded else next(sizes) for d in range(axes)]
