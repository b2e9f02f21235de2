"""Scatters and gathers that accumulate: one operation per added number, none to fill a slot.

The first number that falls into a slot counts as nothing where the target starts at zero.
"""

from __future__ import annotations

import math

from solkit.roofline.work.costs._base import FREE, Cost, rule, scalar
from solkit.roofline.work.program import TensorUse, TracedOp


def accumulated(op: TracedOp, count: int) -> Cost:
    """`count` numbers added up in a result that starts at zero."""
    return scalar(op.result, max(count - op.result.distinct, 0))


def _added(op: TracedOp, count: int) -> Cost:
    """`count` numbers added to what the target holds."""
    return scalar(op.result, max(count - _zeros(op), 0))


def _zeros(op: TracedOp) -> int:
    """Slots that are known to hold nothing before."""
    target = op.arguments.get("self")
    if not isinstance(target, TensorUse) or (target.value is not None and not target.value.any()):
        return op.result.distinct
    read = (use.distinct for use in op.inputs if use.storage == target.storage)
    return max(op.result.distinct - next(read, 0), 0)


@rule("scatter add")
def _scatter(op: TracedOp) -> Cost:
    """Count one number per index, also where one is expanded along the numbers of its row."""
    return _added(op, _named(op.arguments["index"]))


def _named(index: TensorUse) -> int:
    """Count the numbers that an index places."""
    if index.mask is None:
        return index.numel
    repeats = (n for n, size in zip(index.shape, index.mask.shape) if size == 1)
    return int(index.mask.sum()) * math.prod(repeats)


@rule("scatter")
def _scatter_with_reduce(op: TracedOp) -> Cost:
    """Return a plain scatter only moves."""
    return _scatter(op) if op.arguments.get("reduce") else FREE


@rule("index add")
def _index_add(op: TracedOp) -> Cost:
    """Return a slice per index, whose numbers are multiplied first where `alpha` is not one."""
    factor = 1 if op.arguments.get("alpha", 1) == 1 else 2
    return _added(op, factor * op.arguments["source"].distinct)


@rule("index put", "index put always")
def _index_put(op: TracedOp) -> Cost:
    """Count one number per element of the region that the indices name."""
    always = op.operator.cost == "index put always"
    return _added(op, _region(op)) if always or op.arguments.get("accumulate") else FREE


def _region(op: TracedOp) -> int:
    """Count elements that ``x[indices]`` names."""
    indices = [(d, use) for d, use in enumerate(op.arguments["indices"]) if use is not None]
    rank = max((len(use.shape) for _, use in indices), default=0)
    shapes = [(1,) * (rank - len(use.shape)) + use.shape for _, use in indices]
    named = {d for d, _ in indices}
    rest = [n for d, n in enumerate(op.result.shape) if d not in named]
    places: int = math.prod(max(axis) for axis in zip(*shapes))
    return places * math.prod(rest)


@rule("put")
def _put(op: TracedOp) -> Cost:
    """Like a scatter into the flattened tensor."""
    count = op.arguments["index"].distinct
    return _added(op, count) if op.arguments.get("accumulate") else FREE


@rule("gradient")
def _gradient(op: TracedOp) -> Cost:
    """Add each element of the incoming gradient to one of the result, at least."""
    return accumulated(op, op.inputs[0].distinct)


@rule("bag")
def _embedding_bag(op: TracedOp) -> Cost:
    """Sum, mean or maximum of the rows of each bag; weights make it multiply-adds."""
    indices, width = op.arguments["indices"], op.arguments["weight"].shape[-1]
    weighted = op.arguments.get("per_sample_weights") is not None
    rows = indices.numel * width
    return scalar(op.result, max(rows - op.result.distinct, 0) + (rows if weighted else 0))


@rule("bag weights backward")
def _bag_weights_backward(op: TracedOp) -> Cost:
    """Return a dot product per index."""
    width = op.inputs[0].shape[-1]
    return scalar(op.result, (2 * width - 1) * op.result.distinct)


@rule("segment reduce")
def _segment_reduce(op: TracedOp) -> Cost:
    """Count one operation less than elements for each segment."""
    data: TensorUse = op.arguments["data"]
    return scalar(op.result, max(data.distinct - op.result.distinct, 0))
