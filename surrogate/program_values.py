"""Values of a followed Triton kernel: numbers over candidates and samples, tensors by their form.

A number is a float, or an array that broadcasts with (candidates, samples): a sample is one program
of the grid in one trip of each loop. A tensor of indices or pointers is known by its first element
and by how far apart neighbours are in each dimension, which says where a load goes and how much of
a mask holds. What data decide is NaN.
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

from solkit.core import TensorLayout

Array = NDArray[Any]
Number = Any
Span = tuple[Number, Number]
WHOLE: Span = (0.0, 1.0)
FAR = 1024.0
"""Stands for a distance between elements that is not known: far."""
_RARE = 8.0
_QUANTILES = (np.arange(16) + 0.5) / 16
_SECTOR, _VECTOR, _LANES = 32.0, 16.0, 32.0
"""Bytes of a sector of memory, bytes of a thread's widest access, threads of a warp."""


@dataclass(frozen=True)
class Value:
    """Knowledge of a value.

    Attributes:
        number: of a scalar; of a tensor of indices its first element; of pointers the distance of
            the first from the argument's first element, in elements. NaN if unknown.
        sizes: of a tensor by dimension; empty for a scalar.
        steps: how far apart neighbours in a dimension mostly are, as indices; NaN if data decide.
        slopes: how far apart they are on average, where that is not the same: of quotients; NaN
            for remainders that wrap around.
        spans: of a tensor of booleans, where it holds along each dimension: from which part of it
            to which, between 0 and 1; else empty.
        width: bytes of an element, or of what a pointer points to.
        kind: ``"number"``, ``"pointer"``, ``"type"``, ``"none"``, ``"function"``, ``"library"`` or
            ``"unknown"``.
        is_integer: whether elements, or what is pointed to, are integers or booleans.
        loaded: whether it is from memory, unchanged but for its type.
        is_data: whether it depends on what is loaded and not known.
        items: of a tuple.
        text: key or qualified name of a function.
        tensor: of a pointer, if all candidates point to the same.
        bounds: of a tile pointer, the sizes of the tensor that it lies in.
        places: of a tile pointer, the first index of the tile in each dimension.
    """

    number: Number = np.nan
    sizes: tuple[Number, ...] = ()
    steps: tuple[Number, ...] = ()
    slopes: tuple[Number, ...] = ()
    spans: tuple[Span, ...] = ()
    width: Number = 4.0
    kind: str = "number"
    is_integer: bool = False
    loaded: bool = False
    is_data: bool = False
    items: tuple[Value, ...] | None = None
    text: str = ""
    tensor: TensorLayout | None = None
    bounds: tuple[Number, ...] = ()
    places: tuple[Number, ...] = ()

    def __getitem__(self, rows: Array) -> Value:
        """Select what is known of some candidates."""

        def part(number: Number) -> Number:
            many = isinstance(number, np.ndarray) and number.ndim == 2 and len(number) > 1
            return number[rows] if many else number

        return replace(
            self,
            number=part(self.number),
            sizes=tuple(map(part, self.sizes)),
            steps=tuple(map(part, self.steps)),
            slopes=tuple(map(part, self.slopes)),
            spans=tuple((part(low), part(high)) for low, high in self.spans),
            width=part(self.width),
            items=None if self.items is None else tuple(item[rows] for item in self.items),
            bounds=tuple(map(part, self.bounds)),
            places=tuple(map(part, self.places)),
        )

    @property
    def elements(self) -> Number:
        """Number of elements that a block holds."""
        return functools.reduce(operator.mul, self.sizes, 1.0)

    @property
    def trends(self) -> tuple[Number, ...]:
        """Slopes, which are the steps unless something else is known."""
        return self.slopes if len(self.slopes) == len(self.steps) else self.steps

    @property
    def share(self) -> Number:
        """Share of a mask that holds; 1 if unknown."""
        return functools.reduce(operator.mul, (high - low for low, high in self.spans), 1.0)

    @property
    def points(self) -> bool:
        """True for pointers."""
        return self.kind == "pointer"


UNKNOWN = Value(kind="unknown")
"""Nothing is known."""


def constant_value(value: object) -> Value:
    """Return what is known of a constant."""
    if value is None:
        return Value(kind="none")
    if isinstance(value, (bool, int, float)):
        return Value(float(value), is_integer=not isinstance(value, float))
    return Value(value) if isinstance(value, str) else UNKNOWN


class SplitError(Exception):
    """Candidates that cannot be followed together: a decision is not the same for all.

    Attributes:
        labels: equal where the decision is, (candidates,).
    """

    def __init__(self, labels: Array) -> None:
        super().__init__("candidates differ")
        self.labels = labels


def split_by(number: Number) -> None:
    """Check that a decision's number is the same for all candidates.

    One that varies over a candidate's samples counts as a decision of its own.

    Raises:
        SplitError: it is not.
    """
    values = np.asarray(number, float)
    if values.ndim < 2 or len(values) < 2:
        return
    values = np.where(np.isnan(values), -np.inf, values)
    labels = np.where(np.all(values == values[:, :1], axis=1), values[:, 0], np.inf)
    if np.any(labels != labels[0]):
        raise SplitError(labels)


def single_integer(number: Number) -> int | None:
    """Return a whole number that all candidates share; ``None`` if there is no such.

    Raises:
        SplitError: candidates have different ones.
    """
    if is_text(number):
        return None
    split_by(number)
    values = np.unique(np.asarray(number, float))
    is_whole = len(values) == 1 and bool(np.isfinite(values[0])) and values[0] == int(values[0])
    return int(values[0]) if is_whole else None


def is_text(number: Number) -> bool:
    """Tell whether a number is a word, of any candidate."""
    return isinstance(number, str) or (
        isinstance(number, np.ndarray) and number.dtype.kind in "OUS"
    )


# ----------------------------------------------------------------------------------- scalars

_NUMERIC: dict[type, Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: np.true_divide,
    ast.FloorDiv: np.floor_divide,
    ast.Mod: np.mod,
    ast.Pow: np.power,
    ast.LShift: lambda a, b: a * np.power(2.0, b),
    ast.RShift: lambda a, b: np.floor(a / np.power(2.0, b)),
    ast.BitAnd: lambda a, b: _bitwise(np.bitwise_and, a, b),
    ast.BitOr: lambda a, b: _bitwise(np.bitwise_or, a, b),
    ast.BitXor: lambda a, b: _bitwise(np.bitwise_xor, a, b),
}
COMPARED: dict[type, Callable[[Any, Any], Any]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}


def _bitwise(compute: Callable[[Any, Any], Any], lhs: Number, rhs: Number) -> Number:
    are_known = ~(np.isnan(lhs) | np.isnan(rhs))
    whole = (np.nan_to_num(number).astype(np.int64) for number in (lhs, rhs))
    return np.where(are_known, compute(*whole), np.nan)


def _plain(result: Any) -> Number:
    return float(result) if np.ndim(result) == 0 else result


def apply_operator(op: ast.operator, lhs: Number, rhs: Number) -> Number:
    """Apply an arithmetic operator to two numbers; NaN if nobody knows."""
    compute = _NUMERIC.get(type(op))
    if compute is None or is_text(lhs) or is_text(rhs):
        return np.nan
    return _plain(compute(np.asarray(lhs, float), np.asarray(rhs, float)))


def apply_comparison(op: ast.cmpop, lhs: Number, rhs: Number) -> Number:
    """Return 1 where a comparison holds, 0 where it does not; NaN if nobody knows."""
    compare = COMPARED.get(type(op))
    if compare is None or is_text(lhs) != is_text(rhs):
        return np.nan
    if is_text(lhs):
        return _plain(np.asarray(compare(np.asarray(lhs, object), np.asarray(rhs, object)), float))
    lhs, rhs = np.asarray(lhs, float), np.asarray(rhs, float)
    return _plain(np.where(np.isnan(lhs) | np.isnan(rhs), np.nan, compare(lhs, rhs)))


def truth_of_number(number: Number) -> Number:
    """Return 1 where a condition holds, 0 where it does not, NaN where it is not known."""
    if is_text(number):
        return _plain(np.asarray(np.asarray(number, object) != "", float))
    flags = np.asarray(number, float)
    return _plain(np.where(np.isnan(flags), np.nan, (flags != 0).astype(float)))


# ----------------------------------------------------------------------------------- tensors


def _padded(parts: tuple[Number, ...], rank: int, filler: float) -> tuple[Number, ...]:
    return (filler,) * (rank - len(parts)) + parts


def broadcast_values(values: Sequence[Value]) -> Value:
    """Return a tensor of the sizes that some have together; nothing is known of its elements."""
    rank = max(len(value.sizes) for value in values)
    padded = [_padded(value.sizes, rank, 1.0) for value in values]
    sizes = tuple(functools.reduce(np.fmax, together) for together in zip(*padded, strict=True))
    widths = [value.width for value in values if value.sizes or len(values) == 1] or [4.0]
    width = functools.reduce(np.maximum, widths)
    return Value(
        sizes=sizes,
        steps=(np.nan,) * rank,
        width=width,
        is_integer=all(value.is_integer for value in values),
        is_data=any(value.is_data for value in values),
    )


def binary_result(op: ast.operator, lhs: Value, rhs: Value) -> Value:
    """Return the result of an operator, of which at least one operand is a tensor."""
    result = broadcast_values((lhs, rhs))
    rank = len(result.sizes)
    if (lhs.spans or rhs.spans) and isinstance(op, (ast.BitAnd, ast.BitOr)):
        return replace(result, spans=_joined_spans(op, lhs, rhs, rank), width=1.0)
    pointer = lhs if lhs.points else rhs if rhs.points else None
    if pointer is not None:
        result = replace(
            result,
            kind="pointer",
            width=pointer.width,
            is_integer=pointer.is_integer,
            tensor=pointer.tensor,
        )
    steps = _neighbour_steps(op, lhs, rhs, rank)
    is_even = lhs.trends is lhs.steps and rhs.trends is rhs.steps
    slopes = () if is_even else _slopes(op, lhs, rhs)
    if isinstance(op, (ast.FloorDiv, ast.RShift, ast.Mod, ast.BitAnd)):
        slopes = _slopes_of_parts(op, lhs, rhs, steps)
    number = apply_operator(op, lhs.number, rhs.number)
    integer = result.is_integer and not isinstance(op, ast.Div)
    return replace(result, steps=steps, slopes=slopes, number=number, is_integer=integer)


def _slopes(op: ast.operator, lhs: Value, rhs: Value) -> tuple[Number, ...]:
    one, other = (replace(value, steps=value.trends) for value in (lhs, rhs))
    return _neighbour_steps(op, one, other, max(len(lhs.sizes), len(rhs.sizes)))


def _slopes_of_parts(
    op: ast.operator, lhs: Value, rhs: Value, steps: tuple[Number, ...]
) -> tuple[Number, ...]:
    """Return the slopes of quotients and remainders of indices."""
    if rhs.sizes or not lhs.sizes or is_text(rhs.number):
        return steps
    parts = np.asarray(rhs.number, float)
    if isinstance(op, ast.FloorDiv):
        return tuple(slope / parts for slope in lhs.trends)
    if isinstance(op, ast.RShift):
        return tuple(slope / np.power(2.0, parts) for slope in lhs.trends)
    modulus = parts if isinstance(op, ast.Mod) else parts + 1
    last = np.asarray(lhs.number, float) % modulus
    for slope, size in zip(lhs.trends, lhs.sizes, strict=True):
        last = last + slope * (np.asarray(size, float) - 1)
    return tuple(_plain(np.where(last < modulus, slope, np.nan)) for slope in lhs.trends)


def _neighbour_steps(op: ast.operator, lhs: Value, rhs: Value, rank: int) -> tuple[Number, ...]:
    """Return how far apart neighbours of a result are in each of `rank` dimensions."""
    one, other = (_padded(value.steps, rank, 0.0) for value in (lhs, rhs))
    if isinstance(op, (ast.Add, ast.BitOr, ast.BitXor)):
        return tuple(a + b for a, b in zip(one, other, strict=True))
    if isinstance(op, ast.Sub):
        return tuple(a - b for a, b in zip(one, other, strict=True))
    if isinstance(op, ast.Mult) and not (lhs.sizes and rhs.sizes):
        tensor, scalar = (one, rhs) if lhs.sizes else (other, lhs)
        factor = np.nan if is_text(scalar.number) else np.asarray(scalar.number, float)
        far = np.where(np.isnan(factor), FAR, factor)
        return tuple(step * far for step in tensor)
    if isinstance(op, ast.LShift) and lhs.sizes and not rhs.sizes:
        factor = np.power(2.0, np.asarray(rhs.number, float))
        return tuple(step * np.where(np.isnan(factor), FAR, factor) for step in one)
    if isinstance(op, (ast.FloorDiv, ast.RShift)) and lhs.sizes and not rhs.sizes:
        parts = np.asarray(np.nan if is_text(rhs.number) else rhs.number, float)
        parts = np.power(2.0, parts) if isinstance(op, ast.RShift) else parts
        rare = ~(parts < _RARE)  # neighbours mostly have the same quotient
        return tuple(np.where(rare, 0.0, step / np.where(rare, 1.0, parts)) for step in one)
    if isinstance(op, (ast.Mod, ast.BitAnd)) and lhs.sizes:
        return one
    return (np.nan,) * rank


def contiguous_elements(pointer: Value, shares: Sequence[Number]) -> Number:
    """Return elements that lie next to each other; NaN if data decide where.

    Args:
        pointer: to them.
        shares: of each dimension that is accessed.
    """
    run: Number = 1.0
    lost: Number = False
    for _ in pointer.sizes:  # rows that follow each other run on
        grown = run
        for size, step, share in zip(pointer.sizes, pointer.steps, shares, strict=True):
            follows = (np.abs(step) == grown) & (size > 1)
            grown = np.where(follows, grown * np.maximum(size * share, 1.0), grown)
        if np.array_equal(grown, run):
            break
        run = grown
    for step in pointer.steps:
        lost = lost | np.isnan(step)
    return _plain(np.where(lost & (run == 1), np.nan, run))


def sector_share(pointer: Value, run: Number) -> Number:
    """Return bytes of memory's sectors for each byte that is accessed.

    A warp asks for 32 vectors at once. They are as wide as the addresses are aligned, 16 bytes at
    the most; where a request does not start with a sector, it touches one more.
    """
    nearest: Number = np.inf
    repeated: Number = 1.0
    for size, step in zip(pointer.sizes, pointer.steps, strict=True):
        distance = np.abs(np.nan_to_num(step, nan=FAR))
        nearest = np.where((distance > 0) & (size > 1), np.fmin(nearest, distance), nearest)
        repeated = repeated * np.where(distance == 0, size, 1.0)
    width = np.asarray(pointer.width, float)
    aligned = _aligned_bytes(pointer, run)
    length = np.nan_to_num(run, nan=1.0) * width
    request = np.minimum(length, _LANES * np.clip(aligned, width, _VECTOR))
    whole = np.ceil(request / _SECTOR) * _SECTOR
    touched = whole + np.where((aligned < _SECTOR) & (length > width), _SECTOR - aligned, 0.0)
    apart = np.minimum(_SECTOR, nearest * width) / width
    return _plain(np.where(length > width, touched / request, apart) / repeated)


def _aligned_bytes(pointer: Value, run: Number) -> Array:
    """Return the largest power of two, up to a sector, that divides all runs' first addresses."""
    far = [np.where(np.abs(step) >= run, step, 0.0) for step in pointer.steps]
    bits = np.asarray(_SECTOR)
    for distance in (pointer.number, *far):
        whole = np.nan_to_num(np.asarray(distance, float) * pointer.width).astype(np.int64)
        low = np.where(whole == 0, int(_SECTOR), whole & -whole)
        bits = np.minimum(bits, low)
    return np.minimum(bits, bits.min(axis=-1, keepdims=True)) if bits.ndim == 2 else bits


def transpose_value(value: Value, order: Sequence[int] | None = None) -> Value:
    """Transpose a value: by default its last two dimensions change places."""
    rank = len(value.sizes)
    swapped = [*range(rank - 2), rank - 1, rank - 2] if rank > 1 else list(range(rank))
    places = swapped if order is None or sorted(order) != list(range(rank)) else order

    def moved(parts: tuple[Any, ...]) -> tuple[Any, ...]:
        return tuple(parts[at] for at in places) if len(parts) == rank else parts

    return replace(
        value,
        sizes=moved(value.sizes),
        steps=moved(value.steps),
        slopes=moved(value.slopes),
        spans=moved(value.spans),
    )


# ------------------------------------------------------------------------------------- masks


def expanded_shares(mask: Value, rank: int) -> tuple[Number, ...]:
    """Return the share of each of `rank` dimensions that a mask lets through."""
    if not mask.sizes:
        holds = np.asarray(truth_of_number(mask.number), float)
        return _padded((_plain(np.where(np.isnan(holds), 1.0, holds)),), max(rank, 1), 1.0)
    spans = mask.spans[-rank:] if rank else ()
    return _padded(tuple(high - low for low, high in spans), max(rank, 1), 1.0)


def negated_mask(mask: Value) -> Value:
    """Return a mask that holds where another does not."""
    if not mask.spans:
        return mask
    cut = [at for at, span in enumerate(mask.spans) if span is not WHOLE]
    spans = list(mask.spans)
    if len(cut) == 1:
        low, high = spans[cut[0]]
        spans[cut[0]] = _plain(np.where(low > 0, 0.0, high)), _plain(np.where(low > 0, low, 1.0))
    elif cut:
        spans = [*(WHOLE for _ in spans[1:]), (0.0, 1.0 - mask.share)]
    return replace(mask, spans=tuple(spans))


def _joined_spans(op: ast.operator, lhs: Value, rhs: Value, rank: int) -> tuple[Span, ...]:
    sides = [(WHOLE,) * (rank - len(part)) + part for part in map(_spans_of, (lhs, rhs))]
    return tuple(_joined_span(op, one, other) for one, other in zip(*sides, strict=True))


def _spans_of(value: Value) -> tuple[Span, ...]:
    if value.spans or value.sizes:
        return value.spans
    (share,) = expanded_shares(value, 1)
    return () if isinstance(share, float) and share == 1 else ((0.0, share),)


def _joined_span(op: ast.operator, one: Span, other: Span) -> Span:
    """Return where both hold, or either; two parts that are apart count as one between them."""
    if isinstance(op, ast.BitAnd):
        if one is WHOLE or other is WHOLE:
            return other if one is WHOLE else one
        low, high = np.maximum(one[0], other[0]), np.minimum(one[1], other[1])
        return _plain(low), _plain(np.maximum(high, low))
    if one is WHOLE or other is WHOLE:
        return WHOLE
    return _plain(np.minimum(one[0], other[0])), _plain(np.maximum(one[1], other[1]))


def compare_values(op: ast.cmpop, lhs: Value, rhs: Value) -> Value:
    """Return the mask of a comparison, of which at least one operand is a tensor."""
    result = broadcast_values((lhs, rhs))
    rank = len(result.sizes)
    unknown = replace(result, spans=(WHOLE,) * rank, width=1.0, is_integer=True)
    if is_text(lhs.number) or is_text(rhs.number) or type(op) not in COMPARED or result.is_data:
        return unknown
    first = np.asarray(lhs.number, float) - np.asarray(rhs.number, float)
    one, other = (_padded(value.trends, rank, 0.0) for value in (lhs, rhs))
    slopes = [np.asarray(a - b, float) for a, b in zip(one, other, strict=True)]
    active = [at for at in range(rank) if np.any(slopes[at] != 0)] or [rank - 1]
    share = _share_over(op, first, [(slopes[at], result.sizes[at]) for at in active])
    if isinstance(share, float) and share == 1:
        return unknown
    falls = slopes[active[-1]] < 0 if isinstance(op, (ast.Lt, ast.LtE)) else slopes[active[-1]] > 0
    span = _plain(np.where(falls, 1.0 - share, 0.0)), _plain(np.where(falls, 1.0, share))
    spans = [WHOLE] * rank
    spans[active[-1]] = span
    return replace(unknown, spans=tuple(spans))


def _share_over(op: ast.cmpop, first: Array, dimensions: Sequence[tuple[Array, Number]]) -> Number:
    """Return the share of elements for which ``first + sum(slope * index)`` compares with 0."""
    (slope, size), *rest = dimensions
    if not rest:
        return _share_along(op, first, slope, np.asarray(size, float))
    places = (np.floor(quantile * np.asarray(size, float)) for quantile in _QUANTILES[:: len(rest)])
    shares = [_share_over(op, first + slope * place, rest) for place in places]
    return _plain(sum(shares) / len(shares))


def _share_along(op: ast.cmpop, first: Array, slope: Array, size: Array) -> Number:
    """Return the share along one dimension, exactly; 1 where it is not known."""
    if isinstance(op, (ast.Gt, ast.GtE)):
        first, slope = -first, -slope
    if isinstance(op, (ast.LtE, ast.GtE)):
        first = first - 1  # whole numbers
    rise = np.where(slope == 0, 1.0, np.abs(slope))
    if isinstance(op, (ast.Eq, ast.NotEq)):
        place = -first / np.where(slope == 0, 1.0, slope)
        moving = ((place >= 0) & (place < size)) / size
        share = np.where(slope == 0, (first == 0) * 1.0, moving)
        share = share if isinstance(op, ast.Eq) else 1.0 - share
    else:
        rising = np.clip(np.ceil(-first / rise), 0, size)
        falling = size - np.clip(np.floor(first / rise) + 1, 0, size)
        flat = np.where(first < 0, size, 0.0)
        share = np.select([slope > 0, slope < 0], [rising, falling], flat) / size
    unknown = np.isnan(first) | np.isnan(slope) | np.isnan(size)
    return _plain(np.where(unknown, 1.0, share))


# --------------------------------------------------------------------------- what is known of data


def known_integers(pointer: Value) -> Value | None:
    """Return what a load gives of a tensor whose integers are known; ``None`` if it is not."""
    tensor = pointer.tensor
    if tensor is None or not tensor.contents or is_text(pointer.number):
        return None
    first = _look_up(tensor, np.asarray(pointer.number, float))
    steps = tuple(
        _known_step(tensor, np.asarray(pointer.number, float), first, size, step)
        for size, step in zip(pointer.sizes, pointer.steps, strict=True)
    )
    return Value(
        _plain(first), pointer.sizes, steps, width=pointer.width, is_integer=True, loaded=True
    )


def _look_up(tensor: TensorLayout, offset: Array) -> Array:
    place = (offset + tensor.offset_elements) / tensor.contents_step
    values = np.asarray(tensor.contents, float)
    inside = np.clip(np.nan_to_num(place), 0, len(values) - 1)
    numbers = np.interp(inside, np.arange(len(values)), values)
    return np.where(np.isnan(place), np.nan, numbers)


def _known_step(
    tensor: TensorLayout, start: Array, first: Array, size: Number, step: Number
) -> Number:
    """Return the step between loaded neighbours, if it is about the same everywhere."""
    last = np.maximum(np.asarray(size, float) - 1, 1)
    slope = (_look_up(tensor, start + step) - first) / 1.0
    ends = [np.maximum(np.floor(last * part), 1) for part in (0.3, 0.6, 1.0)]
    same = [_look_up(tensor, start + step * end) == first + slope * end for end in ends]
    return _plain(np.where(functools.reduce(operator.and_, same), slope, np.nan))


# ------------------------------------------------------------------------------------- branches


def merge_values(share: Number, yes: Value, no: Value) -> Value:
    """Return a value that is one where a condition holds, and another where it does not."""
    if yes is no:
        return yes
    mostly = yes if np.mean(np.nan_to_num(share, nan=1.0)) >= 0.5 else no
    alike = (
        (yes.kind, len(yes.sizes)) == (no.kind, len(no.sizes)) and not yes.items and not no.items
    )
    if not alike or is_text(yes.number) or is_text(no.number):
        return mostly
    holds = np.nan_to_num(share, nan=1.0) > 0

    def chosen(one: Number, other: Number) -> Number:
        return one if one is other else _plain(np.where(holds, one, other))

    def all_chosen(one: tuple[Number, ...], other: tuple[Number, ...]) -> tuple[Number, ...]:
        return tuple(map(chosen, one, other)) if len(one) == len(other) else one or other

    def all_chosen_spans(one: tuple[Span, ...], other: tuple[Span, ...]) -> tuple[Span, ...]:
        if len(one) != len(other):
            return one or other
        return tuple((chosen(a, c), chosen(b, d)) for (a, b), (c, d) in zip(one, other))

    return replace(
        mostly,
        number=chosen(yes.number, no.number),
        sizes=all_chosen(yes.sizes, no.sizes),
        steps=all_chosen(yes.steps, no.steps),
        slopes=all_chosen(yes.slopes, no.slopes),
        spans=all_chosen_spans(yes.spans, no.spans),
        is_data=yes.is_data or no.is_data,
        width=chosen(yes.width, no.width),
        tensor=yes.tensor if yes.tensor == no.tensor else None,
    )
