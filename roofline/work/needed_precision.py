"""The precision that the results need of each product.

A reference may multiply in fp32, or in fp64, and round what comes of it to 16 bits. The referee
judges results by their own dtype, and by the rounding of the reference itself, so such a product
need not be exact in fp32. Before an exponential it must, as errors grow with the exponent there
(`solkit.roofline.precision_routes` has the kinds).
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence

import torch

from solkit.roofline.precision_routes import admitted_mark
from solkit.roofline.work.costs import Cost, attention_pairs, common_dtype
from solkit.roofline.work.program import TensorUse, TracedOp

_HALF, _SINGLE, _DOUBLE = range(3)
_DOUBLES = (torch.float64, torch.complex128)


def costs_as_needed(
    live: Sequence[TracedOp], costs: Sequence[Cost | None], results: Sequence[TensorUse]
) -> list[Cost | None]:
    """Return the costs of ops, their wide products under the kinds of what becomes of them.

    Args:
        live: the ops, in program order.
        costs: of each.
        results: of the program.
    """
    if not any(cost is not None and _is_wide(cost) for cost in costs):
        return list(costs)
    rounded = _rounded(live)
    needed: dict[int, int] = defaultdict(int)
    for use in results:
        needed[use.storage] = max(needed[use.storage], _of_result(use, rounded))
    grown: set[int] = set()  # storages on the way to an exponential
    kinds: list[Cost | None] = []
    for op, cost in zip(reversed(live), reversed(costs)):
        storages = {use.storage for use in op.stored}
        level = max((needed[storage] for storage in storages), default=_HALF)
        grows = bool(storages & grown)
        kinds.append(cost and _as_needed(op, cost, level, grows))
        for use in op.inputs:
            needed[use.storage] = max(needed[use.storage], level)
            if grows or op.operator.amplifies:
                grown.add(use.storage)
    return kinds[::-1]


def _is_wide(cost: Cost) -> bool:
    return any(key.startswith(("contraction.fp32", "contraction.fp64")) for key in cost.operations)


def _is_half(dtype: torch.dtype) -> bool:
    return dtype.is_floating_point and dtype.itemsize <= 2


def _rounded(live: Sequence[TracedOp]) -> set[int]:
    """Return the storages that hold what the program rounded to 16 bits or less, or made of it."""
    rounded: set[int] = set()
    for op in live:
        moved = op.operator.moves and all(
            _is_half(use.dtype) for use in op.inputs if use.dtype.is_floating_point
        )
        passed = any(use.storage in rounded for use in op.inputs)
        for use in op.stored:
            if passed or (_is_half(use.dtype) and op.inputs and not moved):
                rounded.add(use.storage)
    return rounded


def _of_result(use: TensorUse, rounded: set[int]) -> int:
    if use.dtype in _DOUBLES:
        return _DOUBLE
    return _HALF if _is_half(use.dtype) or use.storage in rounded else _SINGLE


def _as_needed(op: TracedOp, cost: Cost, level: int, grows: bool) -> Cost:
    """Return a cost whose wide products say what is needed of them."""
    before: Mapping[str, int] = _scores(op)
    operations: Counter[str] = Counter()
    for key, count in cost.operations.items():
        if key.startswith("contraction.fp64") and level != _DOUBLE:
            key = key.replace("fp64", "fp32")
        if key == "contraction.fp64" and not grows:
            key += admitted_mark(op.admitted)
        if not key.startswith("contraction.fp32"):
            operations[key] += count
            continue
        scores = count if grows else min(count, before.get(key, 0))
        operations[f"{key}>exp"] += scores
        other = "contraction.fp32~half" if level == _HALF else key + admitted_mark(op.admitted)
        operations[other] += count - scores
    return Cost({key: count for key, count in operations.items() if count})


def _scores(op: TracedOp) -> dict[str, int]:
    """Return the products before the softmax of an attention that is kept whole."""
    if op.operator.cost not in ("attention", "attention backward"):
        return {}
    query, key = op.arguments["query"], op.arguments["key"]
    return {f"contraction.{common_dtype(query, key)}": 2 * attention_pairs(op) * query.shape[-1]}
