"""Products behind lookups, and in front of them: only what differs is computed, and is taken.

::

    x[i] @ w                       (x @ w)[i]: a row of the table each, however often i names one
    cat(x[i] - x[j], x[j]) @ w     sums of such rows: x times each part of w
    relu(x[i] @ w) @ u             what is made of a row alone is the same for all its copies
    (q @ k.T)[i, j]                an inner product for each pair that is taken
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import torch

from solkit.ops import Family
from solkit.roofline.work.costs import Cost
from solkit.roofline.work.program import RESULT, TensorUse, TracedOp, makers_of, readers_of

_DEEP = 24  # ops between a table and a product


def with_looked_up_products(
    ops: Sequence[TracedOp], costs: Sequence[Cost | None], results: Sequence[TensorUse]
) -> list[Cost | None]:
    """Return the costs of ops, products counted for different rows, and elements that are taken.

    Args:
        ops: in program order.
        costs: of each; ``None`` if unknown.
        results: of the program.
    """
    tables = _Tables(ops)
    taken = _taken_shares(ops, results)
    reduced: list[Cost | None] = []
    for op, cost in zip(ops, costs, strict=True):
        if cost is not None:
            share = taken.get(op.result.storage, 1.0)
            cost = _part(cost, min(share, _share_of_different_rows(op, cost, tables)))
        reduced.append(cost)
    return reduced


def _share_of_different_rows(op: TracedOp, cost: Cost, tables: _Tables) -> float:
    """Return the share of a product's operations that its different rows take."""
    factor = _rows_of(op)
    products = sum(n for key, n in cost.operations.items() if key.startswith("contraction."))
    if factor is None or not products or factor[0].dtype == torch.float4_e2m1fn_x2:
        return 1.0
    columns = op.result.shape[factor[1]]
    different = sum(term.count for term in tables.terms(*factor))
    return different * columns * (6 if factor[0].dtype.is_complex else 2) / products


def _part(cost: Cost, share: float) -> Cost:
    if share >= 1:
        return cost
    counts = {key: math.ceil(n * share) for key, n in cost.operations.items()}
    return Cost({key: n for key, n in counts.items() if n})


def _rows_of(op: TracedOp) -> tuple[TensorUse, int] | None:
    """Return the factor whose rows all meet one matrix, and the dimension that is summed."""
    if op.operator.cost == "product" and op.operator.factors and not op.is_symmetric:
        factor, other = (op.arguments[name] for name in op.operator.factors[:2])
        batches = zip(other.shape[:-2], other.stride)
        if len(other.shape) > 1 and all(n == 1 or not step for n, step in batches):
            return factor, len(factor.shape) - 1
        return None
    if op.operator.cost == "convolution" and not op.arguments.get("transposed"):
        weight, strides = op.arguments["weight"], op.arguments.get("stride", ())
        is_of_points = all(n == 1 for n in (*weight.shape[2:], *strides))
        if is_of_points and not any(op.arguments.get("padding", ())):
            return (op.arguments["input"], 1) if op.arguments.get("groups", 1) == 1 else None
    return None


# -------------------------------------------------------------------------------- different rows


@dataclass(frozen=True)
class _Term:
    """Rows that a tensor sums, scaled and copied.

    Attributes:
        place: what tells the rows, and the place in a row where they stand, from others.
        rows: how many of them differ, at the most.
        width: elements of one.
    """

    place: tuple[object, ...]
    rows: int
    width: int

    @property
    def count(self) -> int:
        """Elements of all different rows."""
        return self.rows * self.width


class _Tables:
    """Tables whose rows a program copies to where it multiplies them.

    Args:
        ops: in program order.
    """

    def __init__(self, ops: Sequence[TracedOp]) -> None:
        self._ops = ops
        self._makers = makers_of(ops)
        self._known: dict[tuple[TensorUse, int], tuple[_Term, ...]] = {}

    def terms(self, use: TensorUse, axis: int, depth: int = _DEEP) -> tuple[_Term, ...]:
        """Return the rows that those of a tensor along an axis are sums of, each once."""
        key = use, axis
        if key not in self._known:
            unique = dict.fromkeys(self._made_of(use, axis, depth)) if depth else {}
            terms = tuple(unique)
            alone = _alone(use, axis)
            is_less = terms and sum(term.count for term in terms) <= alone.count
            self._known[key] = terms if is_less else (alone,)
        return self._known[key]

    def _made_of(self, use: TensorUse, axis: int, depth: int) -> Iterator[_Term]:
        """Yield the rows that a tensor is a sum of; none if its maker is not followed."""
        op = self._maker(use)
        axis = -1 if op is None else _axis_of(use, axis, op.result)
        if op is None or axis < 0 or use.mask is not None:
            return
        record, result = op.operator, op.result
        if record.needs == "cat":
            yield from self._joined(op, axis, depth)
        elif record.family is Family.LOOKUP:
            table = op.arguments.get(record.lookups)
            if isinstance(table, TensorUse) and _keeps_rows(op, table, axis):
                yield from self.terms(table, len(table.shape) - 1, depth - 1)
        elif (factor := _rows_of(op)) is not None and axis == factor[1]:
            rows = self.terms(*factor, depth - 1)
            if len(rows) == 1:
                yield _Term((result.storage,), rows[0].rows, result.shape[axis])
        elif op.is_elementwise or record.needs == "repeat":
            yield from self._combined(op, axis, depth)

    def _combined(self, op: TracedOp, axis: int, depth: int) -> Iterator[_Term]:
        """Yield what an elementwise op makes rows of."""
        record, result = op.operator, op.result
        first = [len(result.shape) - len(use.shape) for use in op.inputs]
        along = [
            axis - d if axis >= d and use.shape[axis - d] == result.shape[axis] else -1
            for d, use in zip(first, op.inputs)
        ]
        whole = [(use, at) for use, at in zip(op.inputs, along) if at >= 0]
        if record.needs == "repeat" and not whole:
            return
        is_sum = record.linear and record.sums and not record.multiplies and len(op.inputs) == 2
        if is_sum or (record.moves and len(op.inputs) == 1):
            for use, at in whole:
                yield from self.terms(use, at, depth - 1)
            for use, at in zip(op.inputs, along):
                if at < 0:
                    yield _Term(("number of a row", use), use.distinct, 1)
            return
        lines = [part for part in whole if part[0].distinct > result.shape[axis]]
        if record.linear and record.multiplies and len(lines) == 1:  # scales of rows, or of columns
            yield from self.terms(*lines[0], depth - 1)
        elif len(whole) == len(op.inputs) == 1 and not record.random:
            rows = self.terms(*whole[0], depth - 1)
            if len(rows) == 1:  # a function of a row alone
                yield _Term((result.storage,), rows[0].rows, result.shape[axis])

    def _joined(self, op: TracedOp, axis: int, depth: int) -> Iterator[_Term]:
        dim = op.arguments.get("dim", 0) % len(op.result.shape)
        place = 0
        for use in op.inputs:
            if len(use.shape) != len(op.result.shape):
                continue  # an empty one
            for term in self.terms(use, axis, depth - 1):
                yield _Term((place, *term.place), term.rows, term.width)
            place += use.shape[dim] if dim == axis else 0

    def _maker(self, use: TensorUse) -> TracedOp | None:
        """Return the only op that makes a tensor, as large as the tensor."""
        positions = self._makers.get(use.storage, ())
        op = self._ops[positions[0]] if len(positions) == 1 else None
        return op if op is not None and not op.written and len(op.outputs) == 1 else None


def _alone(use: TensorUse, axis: int) -> _Term:
    groups = use.groups or (1,) * len(use.shape)
    dims = zip(range(len(use.shape)), use.shape, use.stride, groups)
    rows = [n for d, n, step, group in dims if d != axis and step and math.isfinite(group)]
    place = use.storage, use.offset, _lines_of(use), use.stride[axis]
    return _Term(place, math.prod(rows), use.shape[axis])


def _lines_of(use: TensorUse) -> tuple[tuple[int, int], ...]:
    """Return (stride, size) of the dimensions of a tensor's elements, however a view cuts them."""
    lines: list[tuple[int, int]] = []
    for step, n in sorted((step, n) for n, step in zip(use.shape, use.stride) if n > 1 and step):
        if lines and step == math.prod(lines[-1]):
            lines[-1] = lines[-1][0], lines[-1][1] * n
        else:
            lines.append((step, n))
    return tuple(lines)


def _axis_of(use: TensorUse, axis: int, result: TensorUse) -> int:
    """Return the dimension of a whole tensor that is that of a view of all of it; -1 if none."""
    dims = zip(result.shape, result.stride)
    here = use.shape[axis], use.stride[axis]
    places = [d for d, own in enumerate(dims) if own == here]
    is_all = (use.numel, use.offset) == (result.numel, result.offset)
    return places[0] if is_all and len(places) == 1 and use.shape[axis] > 1 else -1


def _keeps_rows(op: TracedOp, table: TensorUse, axis: int) -> bool:
    """Tell whether a lookup copies rows of a table, along their last dimension, whole."""
    last, named = len(table.shape) - 1, op.arguments.get("indices")
    if axis != len(op.result.shape) - 1 or op.result.shape[-1] != table.shape[-1] or last < 1:
        return False
    if isinstance(named, list | tuple):
        return len(named) <= last or named[last] is None
    if "index" in op.arguments:
        dim = op.arguments.get("dim", 0) % len(table.shape)
        return op.operator.needs == "index select" and dim != last
    return op.operator.needs == "embedding"


# --------------------------------------------------------------------------------- taken elements


def _taken_shares(ops: Sequence[TracedOp], results: Sequence[TensorUse]) -> Mapping[int, float]:
    """Return the share of the elements of tensors that lookups take, where that is not all.

    Only of what is made for each element alone: products, and what is elementwise.
    """
    readers, makers = readers_of(ops, results, or_writers=True), makers_of(ops)
    counts: dict[int, int] = {}
    shares: dict[int, float] = {}
    for op in reversed(ops):
        storage, count = op.result.storage, op.result.distinct
        behind = readers[storage]
        is_alone = op.operator.cost == "product" or op.is_elementwise
        if not is_alone or op.written or len(op.outputs) != 1 or len(makers[storage]) != 1:
            continue
        if RESULT in behind or not behind:
            continue
        taken = sum(_taken(ops[n], use, counts) for n in behind for use in ops[n].inputs
                    if use.storage == storage)  # fmt: skip
        if taken < count:
            counts[storage], shares[storage] = taken, taken / count
    return shares


def _taken(op: TracedOp, use: TensorUse, counts: Mapping[int, int]) -> int:
    """Count the elements of an operand that matter to what is taken of an op's result."""
    record, count = op.operator, use.distinct
    if record.family is Family.LOOKUP and record.moves and use is op.arguments.get(record.lookups):
        count = min(count, op.result.distinct)
    elif op.is_elementwise and not op.written and use.numel == op.result.numel:
        count = min(count, counts.get(op.result.storage, count))
    return count
