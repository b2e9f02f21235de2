"""Reductions, scans and searches.

A reduction of n elements to m takes n - m operations, since each takes one element away. Finding a
sorted order or the largest k takes at least as many: every element of a line but one must have been
compared.
"""

from __future__ import annotations

import math

import torch

from solkit.roofline.work.costs._base import Cost, compute_like, rule, scalar
from solkit.roofline.work.program import TensorUse, TracedOp
from solkit.roofline.work.regions import covered_bytes


def _like(op: TracedOp) -> TensorUse:
    """Booleans are summed in what the result is."""
    like = compute_like(op)
    return like if like.dtype != torch.bool else op.result


@rule("reduction")
def _reduction(op: TracedOp) -> Cost:
    """Count one operation less than elements per result; an elementwise max or min is one each."""
    source = op.inputs[0]
    if len(op.inputs) > 1:  # max(x, y)
        return scalar(_like(op), op.result.distinct)
    complex_parts = 2 if source.dtype.is_complex else 1
    return scalar(_like(op), complex_parts * _combined(source, op.result))


def _combined(source: TensorUse, result: TensorUse) -> int:
    """Count operations that bring the elements of a source down to those of a result.

    Windows that overlap (``x.unfold(0, 8, 1).sum(-1)``) share their sums: one per window, at least.
    """
    combined = max(source.distinct - result.distinct, 0)
    stored = covered_bytes([source]) // source.dtype.itemsize if combined else 0
    if stored >= source.distinct:
        return combined
    return max(min(combined, result.distinct), stored - result.distinct)


@rule("along lines")
def _along_lines(op: TracedOp) -> Cost:
    """Count one operation less than elements, for each line along a dimension."""
    source = op.inputs[0]
    return scalar(_like(op), source.distinct - _lines(op, source))


def _lines(op: TracedOp, source: TensorUse) -> int:
    """Count distinct lines along the dimension that an op works along."""
    dim = op.arguments.get("dim", -1)
    length = source.shape[dim] if source.shape and isinstance(dim, int) else 1
    return min(source.distinct, -(-source.distinct // max(length, 1)))


@rule("mean")
def _mean(op: TracedOp) -> Cost:
    """Return a sum and a product per result."""
    return scalar(op.result, op.inputs[0].distinct)


@rule("log sum exp")
def _logsumexp(op: TracedOp) -> Cost:
    """Maximum, shift, exponential, sum; one logarithm per result."""
    source = op.inputs[0]
    return scalar(_like(op), 3 * source.distinct, sfu=source.distinct + op.result.distinct)


@rule("variance", "deviation")
def _variance(op: TracedOp) -> Cost:
    """Sum (1) and sum of squares (2): Welford's is no cheaper. A root per deviation."""
    source = op.inputs[0]
    roots = op.result.distinct if op.operator.cost == "deviation" else 0
    return scalar(_like(op), 3 * source.distinct, sfu=roots)


@rule("vector norm", "distance")
def _norm(op: TracedOp) -> Cost:
    """Sum of |x|^p: |x| is free, squares are multiply-adds; a root per result."""
    order = next((op.arguments[n] for n in ("ord", "p") if op.arguments.get(n) is not None), 2)
    is_distance = op.operator.cost == "distance"
    sources = op.inputs[:1] if is_distance else op.inputs
    outputs = op.outputs or op.written
    read, results = (sum(use.distinct for use in uses) for uses in (sources, outputs))
    differences = read if is_distance else 0
    operations, sfu = _powers(float(order), read, results)
    return scalar(outputs[0], operations + differences, sfu)


def _powers(order: float, read: int, results: int) -> tuple[int, int]:
    """Count operations of `read` numbers' sum of p-th powers, and special functions with roots."""
    sums = max(read - results, 0)
    if order in (0, 1) or math.isinf(order):
        return sums, 0
    if order == 2:
        return read + sums, results
    if order.is_integer() and order > 0:
        return int(order - 1).bit_length() * read + sums, 2 * results
    return read + sums, 2 * (read + results)


@rule("renorm")
def _renorm(op: TracedOp) -> Cost:
    """Return a norm of each slice; slices within the limit need no more."""
    read = op.inputs[0].distinct
    operations, _ = _powers(float(op.arguments.get("p", op.arguments.get("norm_type", 2))), read, 0)
    return scalar(op.inputs[0], operations)


@rule("each once")
def _each_once(op: TracedOp) -> Cost:
    """Count one operation per element read."""
    return scalar(op.inputs[0], op.inputs[0].distinct)


@rule("search")
def _search(op: TracedOp) -> Cost:
    """At least one comparison per element looked up; with n bins up to log2 n."""
    return scalar(op.inputs[0], op.result.distinct)


@rule("trace")
def _trace(op: TracedOp) -> Cost:
    """Return the sum of the diagonal."""
    return scalar(_like(op), max(min(op.inputs[0].shape) - 1, 0))
