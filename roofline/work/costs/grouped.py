"""Products of many matrices or of three tensors: experts of a mixture, bilinear layers."""

from __future__ import annotations

import math
from itertools import permutations

from solkit.roofline.work.costs._base import Cost, contraction, rule
from solkit.roofline.work.program import TensorUse, TracedOp


@rule("grouped product")
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
    """The group's part of the divided dimension; all of it if unknown."""
    ends = op.arguments.get("offs")
    if isinstance(ends, TensorUse) and ends.value is not None and ends.value.size:
        return min(int(ends.value[-1]), size)
    return size


@rule("trilinear")
def _trilinear(op: TracedOp) -> Cost:
    """A sum of products of three tensors (a bilinear layer): two at a time, in the best order."""
    given = op.arguments
    axes = len(given["i1"].shape) + len(given["expand1"])
    sizes = [_sizes(given[f"i{i}"], given[f"expand{i}"], axes) for i in (1, 2, 3)]
    summed = {d % axes for d in given["sumdim"]}

    def multiply_adds(a: list[int], b: list[int], c: list[int]) -> int:
        pair = [max(n, m) for n, m in zip(a, b)]
        left = [1 if d in summed and c[d] == 1 else n for d, n in enumerate(pair)]
        return math.prod(pair) + math.prod(max(n, m) for n, m in zip(left, c))

    return contraction(given["i1"], min(multiply_adds(*order) for order in permutations(sizes)))


def _sizes(use: TensorUse, expanded: list[int], axes: int) -> list[int]:
    """A tensor's shape with dimensions of size 1 where it is expanded."""
    sizes = iter(use.shape)
    return [1 if d in expanded else next(sizes) for d in range(axes)]
