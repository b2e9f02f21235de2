"""Exponentials of one element that several ops need, each with a shift of its row or column.

exp(s - a) exp(a - b) = exp(s - b): where a and b are the same for a whole line, one exponential per
element serves the sum of a softmax, its weights, and the gradient of its logarithm.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace

from solkit.ops import Normalised
from solkit.roofline.work.costs import Cost
from solkit.roofline.work.program import TensorUse, TracedOp

__all__ = ["with_shared_exponentials"]

_DEEP = 32


def with_shared_exponentials(
    ops: Sequence[TracedOp], costs: Sequence[Cost | None]
) -> list[Cost | None]:
    """Return the costs without exponentials that an earlier op has already computed.

    Two consequences are left out, too: with exp(a) and exp(b) at hand the logarithm of their sum
    takes no further exponential, and that of exp(a), or of a softmax, is a shift of a.

    Args:
        ops: in program order.
        costs: of each; ``None`` if unknown.
    """
    makers: dict[int, list[TracedOp]] = defaultdict(list)
    computed: dict[_Source, int] = {}
    shared: list[Cost | None] = []
    sums: list[tuple[int, list[tuple[TensorUse, _Source]]]] = []
    for op, cost in zip(ops, costs, strict=True):
        record = op.operator
        for use in (*op.outputs, *op.written):
            makers[use.storage].append(op)
        operands = [op.arguments.get(name) for name in record.exponentials.split()]
        parts = [
            (part, _source_of(part, makers))
            for operand in operands
            if isinstance(operand, TensorUse) and not operand.dtype.is_complex
            for part in _parts(operand, makers)
        ]
        if cost is not None and _is_of_exponentials(op.arguments.get(record.logarithms), makers):
            cost = _with_fewer(cost, op.result.distinct)
        elif cost is not None and len(operands) > 1 and len(parts) > 1:
            sums.append((len(shared), parts))
        elif cost is not None and parts:
            already = sum(min(computed.get(source, 0), part.distinct) for part, source in parts)
            for part, source in parts:
                computed[source] = max(computed.get(source, 0), part.distinct)
            cost = _with_fewer(cost, already) if already else cost
        shared.append(cost)
    for position, parts in sums:  # the exponentials may come after the logarithm
        cost = shared[position]
        if cost is not None and all(computed.get(key, 0) >= part.distinct for part, key in parts):
            shared[position] = _with_fewer(cost, ops[position].result.distinct)
    return shared


_Source = tuple[TensorUse, int]
"""A tensor, and how many ops had made or written its storage."""


def _source_of(use: TensorUse, makers: dict[int, list[TracedOp]]) -> _Source:
    tensor = _without_shifts(use, makers)
    return tensor, len(makers.get(tensor.storage, ()))  # another one after a write in place


def _parts(use: TensorUse, makers: dict[int, list[TracedOp]]) -> list[TensorUse]:
    """Return the tensors that one is joined of."""
    made_by = makers.get(use.storage, [])
    joined = len(made_by) == 1 and made_by[0].operator.needs in ("cat", "stack")
    return list(made_by[0].inputs) if joined and made_by[0].result.numel == use.numel else [use]


def _is_of_exponentials(use: object, makers: dict[int, list[TracedOp]]) -> bool:
    """Tell whether elements are exponentials of others, each times a factor of its line."""
    for _ in range(_DEEP):
        made_by = makers.get(use.storage, []) if isinstance(use, TensorUse) else []
        if len(made_by) != 1:
            return False
        record = made_by[0].operator
        if record.exponentials and record.zero_at_minus_inf:
            return True
        if not (record.moves and record.aligned and made_by[0].inputs):
            return False
        use = made_by[0].inputs[0]
    return False


def _with_fewer(cost: Cost, count: int) -> Cost:
    sfu = max(cost.operations.get("sfu", 0) - count, 0)
    rest = {pipe: amount for pipe, amount in cost.operations.items() if pipe != "sfu"}
    return Cost({**rest, "sfu": sfu} if sfu else rest)


def _without_shifts(use: TensorUse, makers: dict[int, list[TracedOp]]) -> TensorUse:
    """Return the tensor that a use is a shifted copy of, whole, whatever part of it matters."""
    for _ in range(_DEEP):
        made_by = makers.get(use.storage, [])
        source = _shifted(made_by[0]) if len(made_by) == 1 else None
        if source is None or made_by[0].result.shape != use.shape:
            break
        use = source
    made_by = makers.get(use.storage, [])
    whole = made_by[0].result if len(made_by) == 1 and made_by[0].outputs else use
    same = whole.shape == use.shape and whole.stride == use.stride
    return replace(whole if same else use, mask=None, value=None, sure=True)


def _shifted(op: TracedOp) -> TensorUse | None:
    """Return what an op shifts by a number of each line, or copies."""
    record = op.operator
    if len(op.outputs) != 1:
        return None
    if (record.moves and record.aligned) or record.normalises is Normalised.LOG_SUM_ONE:
        return op.inputs[-1] if record.moves else op.inputs[0]
    if not record.sums or record.multiplies or op.arguments.get("alpha", 1) != 1:
        return None
    full = [use for use in op.inputs if use.shape == op.result.shape and _varies(use)]
    return full[0] if len(full) == 1 and full[0] is op.arguments.get("self") else None


def _varies(use: TensorUse) -> bool:
    """Tell whether a tensor has an element of its own in every place."""
    return all(n == 1 or step for n, step in zip(use.shape, use.stride))
