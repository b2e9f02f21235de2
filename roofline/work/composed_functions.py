"""Special functions that another one takes in: of f and then g, one is enough.

The square of a root needs no root, a quotient by a root one reciprocal root, the logarithm of a
root half a logarithm. The exponential of a logarithm needs neither. `Operator.taken_in` and
`Operator.inverts` list such pairs. exp(log x + y) is x exp(y). Of results that are only compared
the order matters, which a monotone function keeps: ``x.sqrt() < c`` is ``x < c * c``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from solkit.ops import Monotone, Reduction
from solkit.roofline.work.costs import Cost
from solkit.roofline.work.program import RESULT, TensorUse, TracedOp, makers_of, readers_of

_ORDER = "order"
"""The property that comparisons, choices and extrema take of a tensor (`Operator.taken_in`)."""
_EXTREMA = (Reduction.LARGEST, Reduction.LEAST)


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
    readers = readers_of(ops, results)
    functions = _functions_behind(ops, makers, readers)
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
        is_taken_in = functions[storage] and functions[storage] <= _taken_in(op)
        is_undone = op.name == "aten.exp" and op.inputs[0].storage in logarithms
        if cost is not None and (is_taken_in or is_undone or before == [op.operator.inverts]):
            few = 0
            if _ORDER in functions[storage]:
                few = _functions_of_few(op, [ops[n] for n in readers[storage]])
            composed[position] = _less_functions(op, cost, few)
    return composed


def _less_functions(op: TracedOp, cost: Cost, few: int) -> Cost:
    """Return the cost of an op of which a function of each result is taken in, but for a few."""
    count = op.result.distinct
    if few and op.is_elementwise and not op.inputs[0].dtype.is_complex:
        share = min(1.0, few / count)
        return Cost({key: math.ceil(n * share) for key, n in cost.operations.items()})
    if op.is_elementwise:
        count = max(count, op.inputs[0].distinct)
    return cost.with_fewer("sfu", max(count - few, 0))


def _taken_in(op: TracedOp) -> set[str]:
    """Return the functions of an op's results that save one of its special functions each."""
    names = set(op.operator.taken_in)
    if {op.arguments.get("ord", 2), op.arguments.get("p", 2)} != {2}:
        return names & {_ORDER}
    is_function = op.is_elementwise and len(op.inputs) == 1
    is_monotone = op.operator.monotone in (Monotone.RISING, Monotone.FALLING)
    return names | {_ORDER} if is_function and is_monotone else names


def _functions_of_few(op: TracedOp, readers: Sequence[TracedOp]) -> int:
    """Count functions that remain behind a choice, or of what results are compared with."""
    count = 0
    for reader in readers:
        if reader.operator.compares:
            count += sum(use.distinct for use in reader.inputs if use.storage != op.result.storage)
        elif not reader.is_elementwise and reader.outputs[0].dtype.is_floating_point:
            count += reader.outputs[0].distinct
    return count


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
            functions[storage] |= {_function_behind(reader, use, behind) for use in uses}
    return functions


def _function_behind(op: TracedOp, use: TensorUse, behind: set[str] | None) -> str:
    """Return the function that an op takes of an operand, or lets those behind take."""
    if behind == {"exp"} and _is_term(op, use):
        return "exp"
    return _ORDER if behind == {_ORDER} and _keeps_order(op) else _function_of(op, use)


_ORDERS = ("lt", "le", "gt", "ge")


def _keeps_order(op: TracedOp) -> bool:
    """Tell whether an op is a function of one number, and keeps or reverses their order."""
    record = op.operator
    is_monotone = record.monotone in (Monotone.RISING, Monotone.FALLING)
    is_scale = bool(record.linear) and (record.multiplies or record.divides)
    return op.is_elementwise and len(op.inputs) == 1 and bool(is_monotone or is_scale)


def _is_term(op: TracedOp, use: TensorUse) -> bool:
    """Tell whether a use is a term of an op that adds two tensors, and as large as the sum."""
    record = op.operator
    is_sum = record.sums and record.adds_terms and not (record.multiplies or op.written)
    is_added = record.commutes or use is op.arguments.get("self")
    is_plain = len(op.inputs) == 2 and op.arguments.get("alpha", 1) == 1
    return bool(is_sum) and is_added and is_plain and use.distinct == op.result.distinct


def _function_of(op: TracedOp, use: TensorUse) -> str:
    """Return the function that an op takes of an operand; empty if it is none of one element."""
    record, name = op.operator, op.name.removeprefix("aten.")
    is_choice = record.chooses or name in ("argmax", "argmin") or record.reduces in _EXTREMA
    if not op.written and (record.compares in _ORDERS or (is_choice and len(op.inputs) == 1)):
        return _ORDER
    if op.written or len(op.outputs) != 1:
        return ""
    is_square = name == "mul" and op.inputs == (use, use)
    if is_square or (name == "pow" and op.arguments.get("exponent") == 2):
        return "square"
    is_divisor = op.operator.divides and use is op.arguments.get("other")
    if (is_divisor and use is not op.arguments.get("self")) or name == "reciprocal":
        return "divisor"
    return name
