"""Special functions that another one takes in: of f and then g, one is enough.

The square of a root needs no root, a quotient by a root one reciprocal root, the logarithm of a
root half a logarithm. The exponential of a logarithm needs neither. `Operator.taken_in` and
`Operator.inverts` list such pairs. exp(log x + y) is x exp(y).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

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
    makers = makers_of(ops)
    functions = _functions_behind(ops, makers, readers_of(ops, results))
    composed = list(costs)
    logarithms: set[int] = set()
    for position, op in enumerate(ops):
        cost, storage = costs[position], op.result.storage
        if len(makers[storage]) != 1 or op.written:
            continue
        before = [ops[maker].name for maker in makers[op.inputs[0].storage]] if op.inputs else []
        is_sum = op.inputs and all(_is_term(op, use) for use in op.inputs)
        if op.name == "aten.log" or (is_sum and {use.storage for use in op.inputs} <= logarithms):
            logarithms.add(storage)
        is_taken_in = functions[storage] and functions[storage].issubset(op.operator.taken_in)
        is_undone = op.name == "aten.exp" and op.inputs[0].storage in logarithms
        if cost is not None and (is_taken_in or is_undone or before == [op.operator.inverts]):
            composed[position] = cost.with_fewer(
                "sfu", max(op.result.distinct, op.inputs[0].distinct)
            )
    return composed


def _functions_behind(
    ops: Sequence[TracedOp],
    makers: Mapping[int, Sequence[int]],
    readers: Mapping[int, Sequence[int]],
) -> dict[int, set[str]]:
    """Return the functions that are taken of each storage; an empty name for any other use.

    The exponential of a sum is that of each of the terms, too.
    """
    functions: dict[int, set[str]] = {}
    for op in reversed(ops):
        storage = op.result.storage
        is_inner = RESULT not in readers[storage] and len(makers[storage]) == 1
        functions[storage] = set() if is_inner else {""}
        for reader in (ops[n] for n in readers[storage] if n != RESULT):
            behind = functions.get(reader.result.storage)  # none of what is in place
            uses = [use for use in reader.inputs if use.storage == storage]
            functions[storage] |= {
                "exp" if behind == {"exp"} and _is_term(reader, use) else _function_of(reader, use)
                for use in uses
            }
    return functions


def _is_term(op: TracedOp, use: TensorUse) -> bool:
    """Tell whether a use is a term of an op that adds two tensors, and as large as the sum."""
    record = op.operator
    is_sum = record.sums and record.adds_terms and not (record.multiplies or op.written)
    is_added = record.commutes or use is op.arguments.get("self")
    is_plain = len(op.inputs) == 2 and op.arguments.get("alpha", 1) == 1
    return bool(is_sum) and is_added and is_plain and use.distinct == op.result.distinct


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
