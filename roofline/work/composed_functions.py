"""Special functions that another one takes in: of f and then g, one is enough.

The square of a root needs no root, a quotient by a root one reciprocal root, the logarithm of a
root half a logarithm. The exponential of a logarithm needs neither. `Operator.taken_in` and
`Operator.inverts` list such pairs.
"""

from __future__ import annotations

from collections.abc import Sequence

from solkit.roofline.work.costs import Cost
from solkit.roofline.work.program import RESULT, TensorUse, TracedOp, makers_of, readers_of


def with_composed_functions(
    ops: Sequence[TracedOp], costs: Sequence[Cost | None], results: Sequence[TensorUse]
) -> list[Cost | None]:
    """Return the costs of ops without special functions that those behind them take in.

    Args:
        ops: in program order.
        costs: of each; ``None`` if unknown.
        results: of the program.
    """
    makers, readers = makers_of(ops), readers_of(ops, results)
    composed = list(costs)
    for position, op in enumerate(ops):
        cost, storage = costs[position], op.result.storage
        if cost is None or len(makers[storage]) != 1 or op.written:
            continue
        behind = {
            _function_of(ops[reader], use)
            for reader in readers[storage]
            if reader != RESULT
            for use in ops[reader].inputs
            if use.storage == storage
        }
        is_inner = bool(behind) and RESULT not in readers[storage]
        is_taken_in = is_inner and behind.issubset(op.operator.taken_in)
        before = [ops[maker].name for maker in makers[op.inputs[0].storage]] if op.inputs else []
        if is_taken_in or before == [op.operator.inverts]:
            composed[position] = cost.with_fewer(
                "sfu", max(op.result.distinct, op.inputs[0].distinct)
            )
    return composed


def _function_of(op: TracedOp, use: TensorUse) -> str:
    """Return the function that an op takes of an operand; empty if it is none of one element."""
    if op.written or len(op.outputs) != 1:
        return ""
    name = op.name.removeprefix("aten.")
    is_square = name == "mul" and op.inputs == (use, use)
    if is_square or (name == "pow" and op.arguments.get("exponent") == 2):
        return "square"
    is_divisor = op.operator.divides and use is op.arguments.get("other")
    if (is_divisor and use is not op.arguments.get("self")) or name == "reciprocal":
        return "divisor"
    return name
