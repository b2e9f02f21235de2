"""Matrix products that a program writes by broadcasting, as tensor cores compute them.

::

    sum_k x[m, k] y[k, n]
    sum_k (x[m, k] - y[n, k])²        |x|² + |y|² - 2 x y
    sum_k (x[m, k] - y[n, k])² s[n, k]    x² s + y² s - 2 x (y s), two products
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

_DEEP = 8  # ops between factors and their product

_Makers = Mapping[int, Sequence[int]]


def with_products_by_hand(
    ops: Sequence[TracedOp], costs: Sequence[Cost | None], results: Sequence[TensorUse]
) -> tuple[list[Cost | None], set[int]]:
    """Return the costs of ops; reductions that are matrix products count as such.

    Returns:
        The costs, and the positions of the products with those of the ops that these replace.

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
        pair, number = _factors(op, ops, makers) if cost is not None else (None, 0)
        if cost is not None and pair is not None:
            key = f"contraction.{common_dtype(*pair)}"
            terms = op.inputs[0].distinct
            is_triangle = number == 1 and _is_same(*pair)
            count = terms + op.result.distinct if is_triangle else 2 * terms * number
            special = {"sfu": cost.operations.get("sfu", 0)}
            reduced[position] = Cost({key: count}) + Cost(special)
            inside.add(position)
        elif _is_pair(op) or _is_scaling(op) or _is_quotient(op) or _squared(op) is not None:
            behind = readers[op.result.storage]
            if behind and inside.issuperset(behind):
                reduced[position] = Cost({})
                inside.add(position)
    return reduced, inside


def _factors(
    op: TracedOp, ops: Sequence[TracedOp], makers: _Makers
) -> tuple[tuple[TensorUse, TensorUse] | None, int]:
    """Return the factors of the matrix product that a reduction is, and how many products it is.

    No factors of other ops.
    """
    kind = op.operator.reduces
    if kind not in (*_SUMS, Reduction.LOG_SUM_EXP) or len(op.inputs) != 1 or op.written:
        return None, 0
    use = op.inputs[0]
    over = {d for d in dimensions_of(op, use) if use.shape[d] > 1}
    if math.prod(use.shape[d] for d in over) < _DEPTH:
        return None, 0
    parts = _multiplied(use, ops, makers) if kind in _SUMS else [use]
    summed = {part: _summands(part, ops, makers) for part in parts}
    sums = {part for part in parts if summed[part]}
    is_square = len(sums) == 1 and sum(part in sums for part in parts) == 2
    if kind in _SUMS and not is_square:
        return _sides(parts, over, len(use.shape)), 1
    terms = [term for part in sums for term in summed[part]]
    scales = [part for part in parts if part not in sums]
    pair = _sides([*terms, *scales], over, len(use.shape))
    if pair is None or set(pair) != set(terms):
        return None, 0
    varying = (_moving(part, len(use.shape)) for part in scales)
    return pair, 2 if any(dims & over and dims - over for dims in varying) else 1


def _summands(use: TensorUse, ops: Sequence[TracedOp], makers: _Makers) -> tuple[TensorUse, ...]:
    """Return the two tensors whose sum or difference a tensor is; none of other tensors."""
    op = _maker(use, ops, makers)
    return op.inputs if op is not None and _is_pair(op) and op.operator.sums else ()


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


def _multiplied(
    use: TensorUse, ops: Sequence[TracedOp], makers: _Makers, depth: int = _DEEP
) -> list[TensorUse]:
    """Return the tensors whose product, up to a number, a tensor is."""
    op = _maker(use, ops, makers) if depth else None
    if op is not None and _is_conversion(op):
        return [replace(use, origin=use.origin or op.inputs[0].dtype)]
    if op is not None and (root := _squared(op)) is not None:
        return 2 * _multiplied(root, ops, makers, depth - 1)
    is_product = op is not None and _is_pair(op) and op.operator.multiplies
    if op is None or not (is_product or _is_scaling(op) or _is_quotient(op)):
        return [use]
    return [part for own in op.inputs for part in _multiplied(own, ops, makers, depth - 1)]


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


def _is_quotient(op: TracedOp) -> bool:
    """Tell whether an op divides a tensor of floats by a smaller one."""
    if not op.operator.divides or len(op.inputs) != 2 or op.written or not op.is_elementwise:
        return False
    divisor = op.inputs[1]
    is_plain = divisor is op.arguments.get("other") and divisor.dtype.is_floating_point
    return is_plain and divisor.distinct < op.result.distinct


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
