"""Distances between all pairs of points."""

from __future__ import annotations

import math

from solkit.roofline.work.costs._base import Cost, common_dtype, contraction, rule, scalar
from solkit.roofline.work.program import TracedOp


@rule("distances")
def _distances(op: TracedOp) -> Cost:
    """Per pair of points, by the norm's p; D coordinates.

    ::

        2           |x|² + |y|² - 2xy: a product of matrices (2 D), and a root
        0, 1, inf   difference and sum (or maximum): 2 D, since |x| is free
        other       difference, power (through log and exp) and sum: 3 D and 2 D + 2 functions
    """
    x, pairs = op.inputs[0], op.result.distinct
    if op.inputs[:2] == (x, x) and op.result.mask is None:
        pairs = (pairs - pairs // max(op.result.shape[-1], 1)) // 2  # from b to a as from a to b
    terms, p = pairs * x.shape[-1], float(op.arguments.get("p", 2.0))
    if p == 2:
        dtype = common_dtype(*op.inputs[:2])
        return contraction(x, terms, dtype=dtype) + scalar(op.result, 0, sfu=pairs)
    if p in (0, 1) or math.isinf(p):
        return scalar(op.result, 2 * terms)
    if p.is_integer():
        return scalar(op.result, (2 + int(p - 1).bit_length()) * terms, sfu=2 * pairs)
    return scalar(op.result, 3 * terms, sfu=2 * (terms + pairs))


@rule("distances backward")
def _distances_backward(op: TracedOp) -> Cost:
    """Sum a point's gradient over all pairs that the point is in; for p = 2 it is a product."""
    width, pairs = op.result.shape[-1], op.inputs[0].distinct
    if float(op.arguments.get("p", 2.0)) == 2:
        return contraction(op.result, pairs * width) + scalar(op.result, 0, sfu=pairs)
    return scalar(op.result, 2 * pairs * width)
