"""Special functions that another one takes in: of f and then g, one is enough.

The square of a root needs no root, a quotient by a root one reciprocal root, the logarithm of a
root half a logarithm, the tangent of a logarithm a quotient: tanh(log u) = (u² - 1) / (u² + 1), as
in Mish. The exponential of a logarithm needs neither.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

from solkit.roofline.work.costs import Cost
from solkit.roofline.work.program import TensorUse, TracedOp

_LOGARITHMS = ("log", "log2", "log10")
_OF_LOGARITHMS = ("exp", "sigmoid", "tanh")
_TAKEN_IN: Mapping[str, tuple[str, ...]] = {
    "sqrt": ("square", "divisor", *_LOGARITHMS),
    "abs": ("square", "divisor"),  # of complex numbers
    "exp": ("sqrt", "divisor", *_LOGARITHMS),
    **dict.fromkeys(("log", "log1p", "softplus", "log_sigmoid_forward"), _OF_LOGARITHMS),
}
"""By the first function, the functions behind it with which it costs one special function less."""


def with_composed_functions(
    ops: Sequence[TracedOp], costs: Sequence[Cost | None], results: Sequence[TensorUse]
) -> list[Cost | None]:
    """Return the costs of ops without special functions that those behind them take in.

    Args:
        ops: in program order.
        costs: of each; ``None`` if unknown.
        results: of the program.
    """
    makers: dict[int, list[TracedOp]] = defaultdict(list)
    functions: dict[int, set[str]] = defaultdict(set)
    for use in results:
        functions[use.storage].add("")
    for op in ops:
        for use in (*op.outputs, *op.written):
            makers[use.storage].append(op)
        for use in op.inputs:
            functions[use.storage].add(_function_of(op, use))
    composed = list(costs)
    for position, op in enumerate(ops):
        cost, behind = costs[position], functions[op.result.storage]
        if cost is None or len(makers[op.result.storage]) != 1:
            continue
        name = op.name.removeprefix("aten.")
        is_taken_in = bool(behind) and behind.issubset(_TAKEN_IN.get(name, ()))
        if is_taken_in or _takes_in(name, op.inputs, makers):
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


def _takes_in(
    name: str, operands: Sequence[TensorUse], makers: Mapping[int, Sequence[TracedOp]]
) -> bool:
    """Tell whether a function itself costs one special function less, by what made its operand.

    The logarithms of s(x) and of 1 - s(x) differ by x, with s the logistic function.
    """
    before = {"exp": "aten.log", "binary_cross_entropy": "aten.sigmoid"}.get(name)
    return bool(before) and [op.name for op in makers.get(operands[0].storage, ())] == [before]
