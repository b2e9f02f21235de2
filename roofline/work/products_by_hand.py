"""Matrix products that a program writes by broadcasting, as tensor cores compute them.

::

    sum_k x[m, k] y[k, n]
    sum_k (x[m, k] - y[n, k])²        |x|² + |y|² - 2 x y
    log sum_k exp(x[m, k] + y[k, n])  of exp(x) exp(y), as in a step of a hidden Markov model
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import combinations

from solkit.ops import Reduction
from solkit.roofline.work.broadcast import dimensions_of
from solkit.roofline.work.costs import Cost, common_dtype
from solkit.roofline.work.program import TensorUse, TracedOp, makers_of, readers_of

_SUMS = (Reduction.SUM, Reduction.MEAN)
_DEPTH = 16
"""Terms of a sum from which tensor cores compute it: an instruction on halves takes 16."""

_Makers = Mapping[int, Sequence[int]]


def with_products_by_hand(
    ops: Sequence[TracedOp], costs: Sequence[Cost | None], results: Sequence[TensorUse]
) -> list[Cost | None]:
    """Return the costs of ops; reductions that are matrix products count as such.

    Args:
        ops: in program order.
        costs: of each; ``None`` if unknown.
        results: of the program.
    """
    makers, readers = makers_of(ops), readers_of(ops, results)
    reduced = list(costs)
    inside: set[int] = set()
    for position in range(len(ops) - 1, -1, -1):
        op, cost = ops[position], costs[position]
        pair = _factors(op, ops, makers) if cost is not None else None
        if cost is not None and pair is not None:
            key = f"contraction.{common_dtype(*pair)}"
            terms = op.inputs[0].distinct
            count = terms + op.result.distinct if _is_same(*pair) else 2 * terms
            special = {"sfu": cost.operations.get("sfu", 0)}
            reduced[position] = Cost({key: count}) + Cost(special)
            inside.add(position)
        elif _is_pair(op) or _is_scaling(op) or _squared(op) is not None:
            behind = readers[op.result.storage]
            if behind and inside.issuperset(behind):
                reduced[position] = Cost({})
                inside.add(position)
    return reduced


def _factors(
    op: TracedOp, ops: Sequence[TracedOp], makers: _Makers
) -> tuple[TensorUse, TensorUse] | None:
    """Return the factors of the matrix product that a reduction is; ``None`` of other ops."""
    kind = op.operator.reduces
    if kind not in (*_SUMS, Reduction.LOG_SUM_EXP) or len(op.inputs) != 1 or op.written:
        return None
    use = op.inputs[0]
    made_by = _maker(use, ops, makers)
    root = _squared(made_by) if made_by is not None and kind in _SUMS else None
    if root is not None or kind not in _SUMS:
        sum_op = made_by if root is None else _maker(root, ops, makers)
        is_sum = sum_op is not None and _is_pair(sum_op) and sum_op.operator.sums
        parts = list(sum_op.inputs) if sum_op is not None and is_sum else []
    else:
        parts = _multiplied(use, ops, makers)
    over = {d for d in dimensions_of(op, use) if use.shape[d] > 1}
    if math.prod(use.shape[d] for d in over) < _DEPTH:
        return None
    return _sides(parts, over, len(use.shape))


def _sides(
    parts: Sequence[TensorUse], over: set[int], rank: int
) -> tuple[TensorUse, TensorUse] | None:
    """Return two of several factors that the other ones scale; ``None`` if they are no matrices."""
    dims = {part: _moving(part, rank) for part in parts}
    for first, second in combinations(sorted(dims, key=lambda part: -part.numel), 2):
        rows, columns = dims[first], dims[second]
        is_matrix = over <= rows & columns and rows - columns and columns - rows
        if is_matrix and all(own <= rows or own <= columns for own in dims.values()):
            return first, second
    return None


def _multiplied(use: TensorUse, ops: Sequence[TracedOp], makers: _Makers) -> list[TensorUse]:
    """Return the tensors whose product, up to a number, a tensor is."""
    op = _maker(use, ops, makers)
    if op is not None and _is_conversion(op):
        return [replace(use, origin=use.origin or op.inputs[0].dtype)]
    if op is None or not (_is_scaling(op) or (_is_pair(op) and op.operator.multiplies)):
        return [use]
    return [part for operand in op.inputs for part in _multiplied(operand, ops, makers)]


def _maker(use: TensorUse, ops: Sequence[TracedOp], makers: _Makers) -> TracedOp | None:
    """Return the only op that makes a tensor, whole."""
    positions = makers.get(use.storage, ())
    op = ops[positions[0]] if len(positions) == 1 else None
    is_whole = op is not None and (op.result.shape, op.result.stride) == (use.shape, use.stride)
    return op if is_whole else None


def _is_pair(op: TracedOp) -> bool:
    """Tell whether an op adds, subtracts or multiplies two tensors of floats."""
    record = op.operator
    is_plain = record.linear and not record.divides and op.arguments.get("alpha", 1) == 1
    floats = [use for use in op.inputs if use.dtype.is_floating_point]
    return bool(is_plain and (record.sums or record.multiplies)) and (
        len(floats) == len(op.inputs) == 2 and op.is_elementwise and not op.written
    )


def _is_conversion(op: TracedOp) -> bool:
    """Tell whether an op copies a tensor of 16 bits or less to a wider dtype."""
    copies = op.operator.moves and op.operator.aligned and len(op.inputs) == 1
    return bool(copies) and op.inputs[0].dtype.itemsize <= 2 < op.result.dtype.itemsize


def _is_scaling(op: TracedOp) -> bool:
    """Tell whether an op multiplies, or divides, one tensor of floats by a number."""
    record = op.operator
    is_scaled = record.linear and (record.multiplies or record.divides) and not op.written
    return bool(is_scaled) and len(op.inputs) == 1 and op.inputs[0].dtype.is_floating_point


def _squared(op: TracedOp) -> TensorUse | None:
    """Return what an op squares; ``None`` if it does something else."""
    name = op.name.removeprefix("aten.")
    by_hand = name == "mul" and len(op.inputs) == 2 and op.inputs[0] == op.inputs[1]
    is_power = name == "pow" and op.arguments.get("exponent") == 2
    return op.inputs[0] if (by_hand or is_power or name == "square") and not op.written else None


def _moving(use: TensorUse, rank: int) -> set[int]:
    """Return the dimensions along which an operand of a broadcast varies."""
    copied = [math.isinf(group) for group in use.groups or (1,) * len(use.shape)]
    dims = enumerate(zip(use.shape, use.stride, copied), rank - len(use.shape))
    return {d for d, (n, step, is_copied) in dims if n > 1 and step and not is_copied}


def _is_same(first: TensorUse, second: TensorUse) -> bool:
    """Tell whether both factors are one matrix, so that a triangle says the other one."""
    places = [
        (use.storage, use.offset, sorted((s, n) for n, s in zip(use.shape, use.stride) if n > 1))
        for use in (first, second)
    ]
    return places[0] == places[1]
