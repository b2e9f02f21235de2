"""Exponentials, sines and cosines of multiples of one number, and of sums.

::

    exp(n x)             powers of exp(x), for whole n
    exp(x v), sin(x v)   v equally spaced: with v = v1 + v2 of coarse and of fine steps,
                         exp(x v1) exp(x v2), so 2 √L functions in place of L
    sin(x - y)           sin(x) cos(y) - cos(x) sin(y), where x and y are smaller than x - y
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from solkit.roofline.work.costs import Cost
from solkit.roofline.work.costs._base import scalar
from solkit.roofline.work.program import TensorUse, TracedOp, makers_of, readers_of

_FUNCTIONS = ("aten.exp", "aten.sin", "aten.cos")
_DEEP = 8  # scales between a tensor and a function of its multiple
_MOST = 64  # times that one multiple is another one
_LONG = 16  # numbers of a ramp from which its functions are products

_Multiple = tuple[tuple[object, ...], float]
"""A tensor that is scaled, with the tensors that scale it, and the number that also does."""


def with_multiples(
    ops: Sequence[TracedOp], costs: Sequence[Cost | None], results: Sequence[TensorUse]
) -> list[Cost | None]:
    """Return the costs of ops, functions of multiples made of those of one number.

    Args:
        ops: in program order.
        costs: of each; ``None`` if unknown.
        results: of the program.
    """
    makers, readers = makers_of(ops), readers_of(ops, results)
    reduced = list(costs)
    multiples: dict[tuple[object, ...], list[tuple[float, int]]] = defaultdict(list)
    replaced, inner = set[int](), set[int]()
    for position, op in enumerate(ops):
        cost = costs[position]
        if cost is None or op.name not in _FUNCTIONS or not cost.operations.get("sfu"):
            continue
        source, between = _behind_scales(op.inputs[0], ops, makers)
        few = None if source is None else _cost_of_parts(op, cost, source)
        if few is not None:
            reduced[position] = few
            replaced.add(position)
            inner |= between
        elif op.name == "aten.exp":
            key, number = _scaled(op.inputs[0], position, ops, makers)
            multiples[key].append((number, position))
    for position in sorted(inner, reverse=True):
        if replaced.issuperset(readers[ops[position].result.storage]):
            reduced[position] = Cost({})
            replaced.add(position)
    for numbered in multiples.values():
        taken: list[float] = []
        for number, position in sorted(numbered, key=lambda pair: abs(pair[0])):
            cost = reduced[position]
            if any(_is_whole(number / base) for base in taken if base) and cost is not None:
                reduced[position] = cost.with_fewer("sfu", ops[position].result.distinct)
            taken.append(number)
    return reduced


def _is_whole(ratio: float) -> bool:
    return 1 <= round(ratio) <= _MOST and math.isclose(ratio, round(ratio), rel_tol=1e-6)


def _only_maker(
    use: TensorUse, ops: Sequence[TracedOp], makers: Mapping[int, Sequence[int]]
) -> TracedOp | None:
    """Return the only op that makes a tensor, whole."""
    positions = makers.get(use.storage, ())
    op = ops[positions[0]] if len(positions) == 1 else None
    is_whole = op is not None and not op.written and op.result.numel == use.numel
    return op if is_whole else None


def _behind_scales(
    use: TensorUse, ops: Sequence[TracedOp], makers: Mapping[int, Sequence[int]]
) -> tuple[TracedOp | None, set[int]]:
    """Return the op of several tensors that a tensor is a multiple of, and all up to that op."""
    between = set[int]()
    for _ in range(_DEEP):
        op = _only_maker(use, ops, makers)
        record = None if op is None else op.operator
        if op is None or record is None:
            break
        if not (record.linear or (record.moves and record.aligned)):
            break
        between.add(makers[use.storage][0])
        if len(op.inputs) != 1:
            return op, between
        use = op.inputs[0]
    return None, between


def _cost_of_parts(op: TracedOp, cost: Cost, source: TracedOp) -> Cost | None:
    """Return the cost of functions of products, or sums, made of those of smaller tensors.

    ``None`` where these are no fewer.
    """
    record, count = source.operator, op.result.distinct
    if len(source.inputs) != 2 or record.divides or not record.linear:
        return None
    if record.sums and not record.multiplies and op.name != "aten.exp":
        functions = 2 * sum(part.distinct for part in source.inputs)
        return scalar(op.result, 3 * count, sfu=functions) if functions < count else None
    for data, ramp in (source.inputs, source.inputs[::-1]):
        steps = ramp.distinct
        if steps < _LONG or not record.multiplies or not _is_ramp(ramp.value):
            continue
        if data.distinct * steps == source.result.numel:
            share = min(1.0, data.distinct * 2 * math.isqrt(steps) / count)
            return Cost({key: math.ceil(n * share) for key, n in cost.operations.items()})
    return None


def _is_ramp(value: npt.NDArray[Any] | None) -> bool:
    """Tell whether numbers are equally spaced."""
    if value is None or value.dtype.kind not in "iuf":
        return False
    steps = np.diff(value.ravel().astype(np.float64))
    return bool(steps.size) and bool(np.allclose(steps, steps[0], rtol=1e-3, atol=0))


def _scaled(
    use: TensorUse, reader: int, ops: Sequence[TracedOp], makers: Mapping[int, Sequence[int]]
) -> _Multiple:
    """Return a tensor, as an op at a position reads it, as a multiple of another one."""
    scales: list[tuple[object, ...]] = []
    number = 1.0
    for _ in range(_DEEP):
        op = _only_maker(use, ops, makers)
        if op is None:
            break
        record, arguments = op.operator, op.arguments
        is_scale = record.linear and (record.multiplies or record.divides)
        if record.negates or (record.moves and record.aligned and len(op.inputs) == 1):
            number *= -1 if record.negates else 1
        elif is_scale and len(op.inputs) <= 2 and arguments.get("self") is op.inputs[0]:
            other = arguments.get("other")
            if isinstance(other, TensorUse) and other.distinct < use.distinct:
                part, inner = _scaled(other, reader, ops, makers)
                scales.append((record.divides, *part))
            elif isinstance(other, int | float) and other:
                inner = float(other)
            else:
                break
            number = number / inner if record.divides else number * inner
        else:
            break
        use = op.inputs[0]
    writes = sum(maker < reader for maker in makers.get(use.storage, ()))
    key = use.storage, writes, use.offset, use.shape, use.stride
    return (*key, *sorted(scales, key=repr)), number
