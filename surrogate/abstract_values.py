"""Values that a kernel's text is followed with, and what operators make of them.

Numbers are arrays of (candidates,). Tensors are known by their sizes, and by how far apart their
elements' indices lie. What depends on data is NaN.
"""

from __future__ import annotations

import ast
import functools
import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "COMPARED",
    "FAR",
    "UNKNOWN",
    "Array",
    "Number",
    "Value",
    "are_scalars",
    "are_texts",
    "broadcast",
    "compared",
    "computed",
    "is_text",
    "literal",
    "run_of",
    "steps_of",
    "transposed",
    "truth",
    "width_of",
]

Array = NDArray[Any]
Number = Any
"""A float, or an array of (candidates,)."""
FAR = 1024.0
"""Stands for a distance between elements that is not known: far."""
_RARE = 8.0
_NUMERIC: dict[type, Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: np.true_divide,
    ast.FloorDiv: np.floor_divide,
    ast.Mod: np.mod,
    ast.Pow: np.power,
}
_BITS: dict[type, Callable[[Any, Any], Any]] = {
    ast.LShift: lambda a, b: a * np.power(2.0, b),
    ast.RShift: lambda a, b: np.floor(a / np.power(2.0, b)),
    ast.BitAnd: lambda a, b: np.where((a != 0) & (b != 0), 1.0, 0.0),
    ast.BitOr: lambda a, b: np.where((a != 0) | (b != 0), 1.0, 0.0),
    ast.BitXor: lambda a, b: np.full(np.broadcast(a, b).shape, np.nan),
}
COMPARED: dict[type, Callable[[Any, Any], Any]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}


@dataclass(frozen=True)
class Value:
    """Knowledge of a value.

    Attributes:
        number: of a scalar; NaN if unknown.
        sizes: of a tensor by dimension; empty for a scalar.
        steps: how far apart neighbours in a dimension are, as indices; NaN if data decide.
        width: bytes of an element, or of what a pointer points to.
        points: whether it holds pointers.
        loaded: whether it is from memory, unchanged but for its type.
        items: of a tuple.
    """

    number: Number = np.nan
    sizes: tuple[Number, ...] = ()
    steps: tuple[Number, ...] = ()
    width: Number = 4.0
    points: bool = False
    loaded: bool = False
    items: tuple[Value, ...] | None = None

    @property
    def elements(self) -> Number:
        """Number of elements that a block holds."""
        return functools.reduce(operator.mul, self.sizes, 1.0)


UNKNOWN = Value()
"""Nothing is known."""


def literal(value: object) -> Value:
    """Return what is known of a constant."""
    if isinstance(value, (bool, int, float)):
        return Value(float(value))
    return Value(value if isinstance(value, str) else np.nan)


def is_text(number: Number) -> bool:
    """Tell whether a number is a word, of any candidate."""
    return isinstance(number, str) or (
        isinstance(number, np.ndarray) and number.dtype.kind in "OUS"
    )


def are_texts(values: Sequence[Value]) -> bool:
    """Tell whether any is a word."""
    return any(is_text(value.number) for value in values)


def are_scalars(values: Sequence[Value]) -> bool:
    """Tell whether none is a tensor."""
    return all(not value.sizes for value in values)


def computed(op: ast.operator, lhs: Number, rhs: Number) -> Number:
    """Apply an arithmetic operator to two numbers; NaN if nobody knows."""
    if is_text(lhs) or is_text(rhs):
        return np.nan
    compute = _NUMERIC.get(type(op)) or _BITS.get(type(op))
    if compute is None:
        return np.nan
    result = compute(np.asarray(lhs, float), np.asarray(rhs, float))
    return float(result) if np.ndim(result) == 0 else result


def compared(compare: Callable[[Any, Any], Any], lhs: Number, rhs: Number) -> Number:
    """Return 1 where a comparison holds, 0 where it does not; NaN if nobody knows."""
    if is_text(lhs) != is_text(rhs):
        return np.nan
    if is_text(lhs):
        return compare(np.asarray(lhs, object), np.asarray(rhs, object)).astype(float)
    lhs, rhs = np.asarray(lhs, float), np.asarray(rhs, float)
    result = np.where(np.isnan(lhs) | np.isnan(rhs), np.nan, compare(lhs, rhs))
    return float(result) if np.ndim(result) == 0 else result


def truth(number: Number) -> Any:
    """Return 1 where a condition holds, 0 where it does not; ``None`` if it is not known."""
    if is_text(number):
        return np.asarray(np.asarray(number, object) != "", float)
    flags = np.asarray(number, float)
    return None if np.any(np.isnan(flags)) else (flags != 0).astype(float)


def broadcast(lhs: Value, rhs: Value) -> Value:
    """Return a tensor of the sizes that two have together; nothing is known of its elements."""
    rank = max(len(lhs.sizes), len(rhs.sizes))
    one, other = ((1.0,) * (rank - len(value.sizes)) + value.sizes for value in (lhs, rhs))
    sizes = tuple(np.fmax(a, b) for a, b in zip(one, other, strict=True))
    width = np.maximum(lhs.width if lhs.sizes else 0.0, rhs.width if rhs.sizes else 0.0)
    return Value(sizes=sizes, steps=(np.nan,) * rank, width=width)


def steps_of(op: ast.operator, lhs: Value, rhs: Value, rank: int) -> tuple[Number, ...]:
    """Return how far apart neighbours of a result are in each of `rank` dimensions."""
    one, other = (_padded(value, rank) for value in (lhs, rhs))
    if isinstance(op, (ast.Add, ast.Sub, ast.BitOr)):
        return tuple(a + b for a, b in zip(one, other, strict=True))
    if isinstance(op, ast.Mult) and not (lhs.sizes and rhs.sizes):
        tensor, scalar = (one, rhs) if lhs.sizes else (other, lhs)
        factor = np.nan if is_text(scalar.number) else scalar.number
        far = np.where(np.isnan(factor), FAR, factor)
        return tuple(step * far for step in tensor)
    if isinstance(op, ast.FloorDiv) and lhs.sizes and not rhs.sizes:
        parts = FAR if is_text(rhs.number) else np.asarray(rhs.number, float)
        rare = ~(parts < _RARE)  # neighbours mostly have the same quotient
        return tuple(np.where(rare, 0.0, step / np.where(rare, 1.0, parts)) for step in one)
    if isinstance(op, ast.Mod) and lhs.sizes:
        return one
    return (np.nan,) * rank


def _padded(value: Value, rank: int) -> tuple[Number, ...]:
    return (0.0,) * (rank - len(value.steps)) + value.steps


def run_of(pointer: Value) -> Number:
    """Return elements that lie next to each other; NaN if data decide where."""
    run: Number = 1.0
    lost: Number = False
    for size, step in zip(pointer.sizes, pointer.steps, strict=True):
        run = np.where(np.abs(step) == 1, run * size, run)
        lost = lost | np.isnan(step)
    return np.where(lost & (run == 1), np.nan, run)


def transposed(value: Value) -> Value:
    """Transpose a value: its dimensions in the other order."""
    return replace(value, sizes=value.sizes[::-1], steps=value.steps[::-1])


def width_of(first: Value) -> Number:
    """Return float32's width, unless memory says otherwise: types have no values here."""
    return first.width if first.loaded else 4.0
