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

    Args:
        ops: in program order.
        costs: of each; ``None`` if unknown.
    """
    makers: dict[int, list[TracedOp]] = defaultdict(list)
    computed: dict[tuple[TensorUse, int], int] = {}
    shared: list[Cost | None] = []
    for op, cost in zip(ops, costs, strict=True):
        for use in (*op.outputs, *op.written):
            makers[use.storage].append(op)
        operand = op.arguments.get(op.operator.exponentials) if op.operator.exponentials else None
        if cost is None or not isinstance(operand, TensorUse) or operand.dtype.is_complex:
            shared.append(cost)
            continue
        tensor = _without_shifts(operand, makers)
        source = tensor, len(makers.get(tensor.storage, ()))  # another one after a write in place
        already = min(computed.get(source, 0), operand.distinct)
        computed[source] = max(computed.get(source, 0), operand.distinct)
        shared.append(_with_fewer(cost, already) if already else cost)
    return shared


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
