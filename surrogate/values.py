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
    """What is known of a value.

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
        """How many a block holds."""
        return functools.reduce(operator.mul, self.sizes, 1.0)


UNKNOWN = Value()
"""Nothing is known."""


def literal(value: object) -> Value:
    """What is known of a constant."""
    if isinstance(value, (bool, int, float)):
        return Value(float(value))
    return Value(value if isinstance(value, str) else np.nan)


def is_text(number: Number) -> bool:
    """Whether a number is a word, of any candidate."""
    return isinstance(number, str) or (
        isinstance(number, np.ndarray) and number.dtype.kind in "OUS"
    )


def are_texts(told: Sequence[Value]) -> bool:
    """Whether any is a word."""
    return any(is_text(each.number) for each in told)


def are_scalars(told: Sequence[Value]) -> bool:
    """Whether none is a tensor."""
    return all(not each.sizes for each in told)


def computed(op: ast.operator, left: Number, right: Number) -> Number:
    """What an arithmetic operator makes of two numbers; NaN if nobody knows."""
    if is_text(left) or is_text(right):
        return np.nan
    compute = _NUMERIC.get(type(op)) or _BITS.get(type(op))
    if compute is None:
        return np.nan
    found = compute(np.asarray(left, float), np.asarray(right, float))
    return float(found) if np.ndim(found) == 0 else found


def compared(compare: Callable[[Any, Any], Any], left: Number, right: Number) -> Number:
    """1 where a comparison holds, 0 where it does not; NaN if nobody knows."""
    if is_text(left) != is_text(right):
        return np.nan
    if is_text(left):
        return compare(np.asarray(left, object), np.asarray(right, object)).astype(float)
    left, right = np.asarray(left, float), np.asarray(right, float)
    found = np.where(np.isnan(left) | np.isnan(right), np.nan, compare(left, right))
    return float(found) if np.ndim(found) == 0 else found


def truth(told: Number) -> Any:
    """1 where a condition holds, 0 where it does not; ``None`` if it is not known."""
    if is_text(told):
        return np.asarray(np.asarray(told, object) != "", float)
    found = np.asarray(told, float)
    return None if np.any(np.isnan(found)) else (found != 0).astype(float)


def broadcast(left: Value, right: Value) -> Value:
    """A tensor of the sizes that two have together; nothing is known of its elements."""
    rank = max(len(left.sizes), len(right.sizes))
    one, other = ((1.0,) * (rank - len(each.sizes)) + each.sizes for each in (left, right))
    sizes = tuple(np.fmax(a, b) for a, b in zip(one, other, strict=True))
    width = np.maximum(left.width if left.sizes else 0.0, right.width if right.sizes else 0.0)
    return Value(sizes=sizes, steps=(np.nan,) * rank, width=width)


def steps_of(op: ast.operator, left: Value, right: Value, rank: int) -> tuple[Number, ...]:
    """How far apart neighbours of a result are in each of `rank` dimensions."""
    one, other = (_padded(each, rank) for each in (left, right))
    if isinstance(op, (ast.Add, ast.Sub, ast.BitOr)):
        return tuple(a + b for a, b in zip(one, other, strict=True))
    if isinstance(op, ast.Mult) and not (left.sizes and right.sizes):
        tensor, scalar = (one, right) if left.sizes else (other, left)
        factor = np.nan if is_text(scalar.number) else scalar.number
        far = np.where(np.isnan(factor), FAR, factor)
        return tuple(each * far for each in tensor)
    if isinstance(op, ast.FloorDiv) and left.sizes and not right.sizes:
        parts = FAR if is_text(right.number) else np.asarray(right.number, float)
        rare = ~(parts < _RARE)  # neighbours mostly have the same quotient
        return tuple(np.where(rare, 0.0, each / np.where(rare, 1.0, parts)) for each in one)
    if isinstance(op, ast.Mod) and left.sizes:
        return one
    return (np.nan,) * rank


def _padded(value: Value, rank: int) -> tuple[Number, ...]:
    return (0.0,) * (rank - len(value.steps)) + value.steps


def run_of(pointer: Value) -> Number:
    """Elements that lie next to each other; NaN if data decide where."""
    found: Number = 1.0
    lost: Number = False
    for size, step in zip(pointer.sizes, pointer.steps, strict=True):
        found = np.where(np.abs(step) == 1, found * size, found)
        lost = lost | np.isnan(step)
    return np.where(lost & (found == 1), np.nan, found)


def transposed(value: Value) -> Value:
    """With its dimensions in the other order."""
    return replace(value, sizes=value.sizes[::-1], steps=value.steps[::-1])


def width_of(first: Value) -> Number:
    """Types have no values here: float32, unless memory says otherwise."""
    return first.width if first.loaded else 4.0
