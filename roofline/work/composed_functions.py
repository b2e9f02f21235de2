"""Special functions that another one takes in: of f and then g, one is enough.

The square of a root needs no root, a quotient by a root one reciprocal root, the logarithm of a
root half a logarithm, the tangent of a logarithm a quotient: tanh(log u) = (u² - 1) / (u² + 1), as
in Mish. The exponential of a logarithm needs neither.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from solkit.roofline.work.costs import Cost
from solkit.roofline.work.program import RESULT, TensorUse, TracedOp, makers_of, readers_of

_LOGARITHMS = ("log", "log2", "log10")
_OF_LOGARITHMS = ("exp", "sigmoid", "tanh")
_TAKEN_IN: Mapping[str, tuple[str, ...]] = {
    "sqrt": ("square", "divisor", *_LOGARITHMS),
    "abs": ("square", "divisor"),  # of complex numbers
    "exp": ("sqrt", "divisor", *_LOGARITHMS),
    **dict.fromkeys(("log", "log1p", "softplus", "log_sigmoid_forward"), _OF_LOGARITHMS),
}
"""By the first function, the functions behind it with which it costs one special function less."""
_BEFORE = {"exp": "aten.log", "binary_cross_entropy": "aten.sigmoid"}
"""By a function, the one that made its operand with which it costs one special function less.

The logarithms of s(x) and of 1 - s(x) differ by x, with s the logistic function.
"""


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
        if cost is None or len(makers[storage]) != 1:
            continue
        name = op.name.removeprefix("aten.")
        behind = {
            _function_of(ops[reader], use)
            for reader in readers[storage]
            if reader != RESULT
            for use in ops[reader].inputs
            if use.storage == storage
        }
        is_inner = bool(behind) and RESULT not in readers[storage]
        is_taken_in = is_inner and behind.issubset(_TAKEN_IN.get(name, ()))
        before = [ops[maker].name for maker in makers[op.inputs[0].storage]] if op.inputs else []
        if is_taken_in or before == [_BEFORE.get(name)]:
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
