"""The narrow dtype that data had before it was converted and scaled.

References convert bf16, fp8 or int8 data to fp32, multiply it by the scales of its rows or blocks,
and multiply matrices then. A kernel multiplies the narrow data on the tensor cores and scales the
sums, so the product belongs to the narrow dtype's pipe. Walking forwards, each factor of a product
is annotated with the dtype that holds its values apart from such scales. A scale that changes along
the summed dimension, but for groups of some elements, cannot be taken out of the sum: such a factor
is as wide as its own dtype.

Notation
    group    elements along one dimension that share a scale; infinite if all do
    layout   along which dimensions of a storage scales change, as `Layout` has it
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch

from solkit.ops import Family
from solkit.roofline.work.broadcast import (
    Layout,
    Repeats,
    aligned,
    extents_of,
    groups_of,
    layout_of,
    moves,
)
from solkit.roofline.work.program import Program, TensorUse, TracedOp

_BLOCK = 16
"""The fewest elements that share a scale: NVFP4 has one for 16, the smallest block in use."""

_FP4_VALUES = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)
"""Magnitudes of e2m1: OCP Microscaling Formats 1.0, table 5."""

_FP4 = torch.float4_e2m1fn_x2
_FP8 = (*(torch.float8_e4m3fn, torch.float8_e5m2), *(torch.float8_e4m3fnuz, torch.float8_e5m2fnuz))
_HALVES = (torch.bfloat16, torch.float16)
_FLOATS = (_FP4, *_FP8, *_HALVES)  # each holds those before it, bf16 and fp16 with scales
_LARGEST = {torch.int8: 128, torch.uint8: 255}
_HELD = {256: torch.bfloat16, 2048: torch.float16}
"""Integers up to such a size are exact in 8 and 11 bits."""

_SUMMED: Mapping[str, tuple[tuple[int, ...], ...]] = {
    "product": ((-1,), (-2,)),
    "product summed over a batch": ((0, -1), (0, -2)),
    "whole product": ((-1,), (-1,)),
    "grouped product": ((-1,), (-2,)),
    "attention": ((-1,), (-1,), (-2,)),
    "attention backward": ((-1, -2), (-1, -2), (-1, -2), (-1, -2)),
    "convolution": ((1, 2, 3, 4), (1, 2, 3, 4)),
    "convolution backward": ((0, 1, 2, 3, 4),) * 3,
    "distances": ((-1,), (-1,)),
}
"""Dimensions of the factors that a product sums over, by `Operator.cost`."""

_LIMITING = ("clamp", "hardtanh", "minimum", "maximum")
"""Functions whose results are operands or limits, by `Operator.limits`."""
_LIMITS = ("min", "max", "min_val", "max_val")

_FACTORS: Mapping[str, tuple[str, ...]] = {
    "product summed over a batch": ("batch1", "batch2"),
    "attention backward": ("grad_out", "query", "key", "value"),
    "convolution": ("input", "weight"),
    "convolution backward": ("grad_output", "input", "weight"),
}


@dataclass(frozen=True)
class _Content:
    """Values of a storage.

    Attributes:
        origin: the dtype that holds them apart from scales; ``None`` for 0, 1 and infinity, which
            every dtype holds.
        size: the largest magnitude of integers; 0 if they are none.
        layout: of the scales.
        is_scaled: whether they were multiplied by anything.
    """

    origin: torch.dtype | None
    size: int = 0
    layout: Layout = ()
    is_scaled: bool = False


def with_origins(program: Program) -> Program:
    """Return the program, the factors of its products annotated with `TensorUse.origin`."""
    held = _Held(extents_of(program.ops))
    return replace(program, ops=tuple(held.annotated(op) for op in program.ops))


def product_factors(op: TracedOp) -> list[tuple[TensorUse, tuple[int, ...]]]:
    """Return the factors of a product, each with the dimensions that it sums over."""
    summed = _SUMMED.get(op.operator.cost)
    if summed is None:
        return []
    names = op.operator.factors or _FACTORS.get(op.operator.cost, ())
    factors = [op.arguments.get(name) for name in names] or list(op.inputs[:2])
    return [(use, dims) for use, dims in zip(factors, summed) if isinstance(use, TensorUse)]


class _Held:
    """Contents of each storage at one point of the program."""

    def __init__(self, extents: Mapping[int, int]) -> None:
        self._extents = extents
        self._contents: dict[int, _Content] = {}
        self._whole: dict[int, tuple[float, float]] = {}  # limits of integers, by storage
        self._repeats = Repeats(extents)

    def annotated(self, op: TracedOp) -> TracedOp:
        """Return the op with the origins of its factors. Notes the content of its results."""
        whole = self._whole_range(op)
        content = self._content_of(op) or _between(whole)
        changed = self._with_factors(op)
        for use in op.stored:
            mine = content if use.storage == op.result.storage else None
            if op.written and not _scales(op):
                before = self._contents.get(use.storage)
                is_whole = use.numel >= self._extents[use.storage]
                if before is not None or not (op.operator.overwrites and is_whole):
                    mine = _joined([before, mine])  # an unknown part of the target is as it was
            self._contents.pop(use.storage, None)
            self._whole.pop(use.storage, None)
            if mine is not None and not _is_rounded(use.dtype, mine):
                self._contents[use.storage] = mine
        if whole is not None and op.outputs and not op.written:
            self._whole[op.result.storage] = whole
        self._repeats.note(op)
        return changed

    # ------------------------------------------------------------------------------ factors

    def _with_factors(self, op: TracedOp) -> TracedOp:
        swaps: dict[int, TensorUse] = {}
        for use, dims in product_factors(op):
            content = self._of(use)
            if content is None or content.origin in (None, use.dtype):
                continue
            if self._is_summed_apart(use, content, dims):
                swaps[id(use)] = replace(use, origin=content.origin)
        return op.mapped(lambda leaf: swaps.get(id(leaf), leaf)) if swaps else op

    def _is_summed_apart(self, use: TensorUse, content: _Content, dims: Sequence[int]) -> bool:
        """Tell whether sums over dimensions meet no more than a scale for each group."""
        if not content.layout:
            return True
        groups = groups_of(use, content.layout)
        rank = len(groups)
        over = {max(d, d + rank) if d < 0 else d for d in dims if -rank <= d < rank}
        if rank == 1:
            over = {0}
        return all(groups[d] >= _BLOCK for d in over)

    def _of(self, use: TensorUse) -> _Content | None:
        content = self._contents.get(use.storage)
        if content is not None:
            return content
        if use.dtype in _FLOATS:
            return _Content(use.dtype)
        if use.dtype in _LARGEST:
            return _Content(use.dtype, _LARGEST[use.dtype])
        return _Content(torch.int8, 1) if use.dtype is torch.bool else _constant(use)

    # ------------------------------------------------------------------------------ results

    def _content_of(self, op: TracedOp) -> _Content | None:
        """Return what an op's result holds; ``None`` if that needs its own dtype."""
        record = op.operator
        if record.family in (Family.FILL, Family.CREATION) and not record.random:
            return _filled(op)
        if not op.inputs:
            return None
        if record.family is Family.POINTWISE and not op.result.dtype.is_floating_point:
            return self._of_integers(op)
        if record.needs == "masked fill":
            return self._filled_in(op)
        if record.limits in ("rectified", "absolute"):  # zero, or an element up to its sign
            return self._of(op.inputs[0])
        if record.limits in _LIMITING:
            return self._limited(op)
        if _scales(op):
            return self._scaled(op)
        if record.sums:
            return self._shifted(op)
        if not (moves(op) or record.family in (Family.MOVE, Family.LOOKUP)):
            return None
        sources = [use for use in op.inputs if _is_data(op, use)]
        if record.overwrites:
            sources = list(op.inputs[-1:])
        if sources and _holds_fp4(sources[0]):
            return _Content(_FP4)
        return self._moved(op, sources)

    def _moved(self, op: TracedOp, sources: Sequence[TensorUse]) -> _Content | None:
        placed = []
        for use in sources:
            content = self._of(use)
            if content is None:
                return None
            if content.layout:
                groups = aligned(groups_of(use, content.layout), use.shape, op.result.shape)
                content = replace(content, layout=layout_of(op.result, groups))
            placed.append(content)
        numbers = [
            value
            for name in ("self", "other", "value")  # of `where` and padding
            if isinstance(value := op.arguments.get(name), (int, float))
        ]
        joined = _joined(placed, numbers) if placed else None
        fits = op.result.dtype.is_floating_point or (joined is not None and joined.size > 0)
        return joined if fits else None

    def _filled_in(self, op: TracedOp) -> _Content | None:
        value = op.arguments["value"]
        if isinstance(value, TensorUse):
            return _joined([self._of(op.inputs[0]), self._of(value)])
        return _joined([self._of(op.inputs[0])], [value])

    def _limited(self, op: TracedOp) -> _Content | None:
        """Return the content of elements or limits; a limit of scaled ones has no such scale."""
        kept = [self._of(use) for use in op.inputs]
        limits = [op.arguments.get(name) for name in _LIMITS]
        numbers = [limit for limit in limits if isinstance(limit, (int, float))]
        scaled = [content for content in kept if content is not None and content.is_scaled]
        if scaled and (
            len(kept) > 1 or any(number and math.isfinite(number) for number in numbers)
        ):
            return None
        return _joined(kept, numbers)

    def _whole_range(self, op: TracedOp) -> tuple[float, float] | None:
        """Return limits of the integers that an op of floats makes; ``None`` if it makes others."""
        record = op.operator
        if record.whole and not op.arguments.get("decimals"):
            least, most = record.least, record.most
            return (-math.inf if least is None else least, math.inf if most is None else most)
        before = self._whole.get(op.inputs[0].storage) if len(op.inputs) == 1 else None
        if before is None:
            return None
        if record.limits in _LIMITING:
            lower = [op.arguments.get(name) for name in _LIMITS[::2]]
            upper = [op.arguments.get(name) for name in _LIMITS[1::2]]
            numbers = [limit for limit in (*lower, *upper) if limit is not None]
            if not all(isinstance(n, (int, float)) and _is_whole(n) for n in numbers):
                return None
            least = max([before[0], *(n for n in lower if n is not None)])
            most = min([before[1], *(n for n in upper if n is not None)])
            return least, most
        return before if moves(op) and not record.negates else None

    def _scaled(self, op: TracedOp) -> _Content | None:
        data, *others = op.inputs
        if not op.operator.divides and others and others[0].numel > data.numel:
            data, others = others[0], [data]
        content = self._of(data)
        if content is None or (op.operator.divides and op.arguments.get("rounding_mode")):
            return None
        shape = op.result.shape
        groups = aligned(groups_of(data, content.layout), data.shape, shape)
        for other in others:
            factor = self._of(other)
            ones = factor is not None and (factor.size == 1 or factor.origin is None)
            if ones and not op.operator.scales:
                continue  # zeros and ones leave or remove elements
            mine = aligned(self._groups_of_scale(other), other.shape, shape)
            groups = tuple(map(min, groups, mine))
        if shape and all(group < _BLOCK for group, n in zip(groups, shape) if n > 1):
            return None if math.prod(shape) > 1 else content
        return replace(content, size=0, layout=layout_of(op.result, groups), is_scaled=True)

    def _shifted(self, op: TracedOp) -> _Content | None:
        """Return the content of a sum of small integers, such as codes less their zero point."""
        sizes = []
        for name in ("self", "other"):
            term = op.arguments.get(name)
            if isinstance(term, TensorUse):
                content = self._of(term)
                sizes.append(content.size if content and not content.layout else 0)
            elif isinstance(term, (int, float)):
                sizes.append(int(abs(term)) if float(term).is_integer() else 0)
        if not all(sizes) or op.arguments.get("alpha", 1) not in (1, -1):
            return None
        return _integers(sum(sizes))

    def _of_integers(self, op: TracedOp) -> _Content | None:
        """Return the content after an operation on small integers and a number, run on all."""
        content, number = self._of(op.inputs[0]), op.arguments.get("other")
        if (
            content is None
            or not content.size
            or op.written
            or not isinstance(number, int)
            or not number
        ):
            return None
        least = 0 if content.origin is torch.uint8 else -content.size
        every = torch.arange(least, content.size + 1)
        results = getattr(torch.ops.aten, op.name.removeprefix("aten."))(every, number).long()
        unsigned = int(results.min()) >= 0
        return _integers(int(results.abs().max()), {torch.uint8 if unsigned else torch.int8})

    def _groups_of_scale(self, use: TensorUse) -> tuple[float, ...]:
        """Return the elements along each dimension that are the same."""
        alike = use.values is not None and use.values * _BLOCK <= use.numel
        return self._repeats.groups(use, float(_BLOCK if alike else 1))


# ------------------------------------------------------------------------------------ dtypes


def _joined(contents: Sequence[_Content | None], numbers: Sequence[object] = ()) -> _Content | None:
    """Return a content that holds all, numbers too; ``None`` if no narrow dtype does."""
    if numbers:
        joined = _joined(contents)
        if joined is not None and all(_holds(joined, number) for number in numbers):
            return joined
        return _joined([*contents, *map(_number, numbers)])
    if not contents or any(content is None for content in contents):
        return None
    narrow = [content for content in contents if content is not None]
    layout = tuple(dict.fromkeys(entry for content in narrow for entry in content.layout))
    is_scaled = any(content.is_scaled for content in narrow)
    origins = {content.origin for content in narrow} - {None}
    if not origins:
        return _Content(None, layout=layout, is_scaled=is_scaled)
    integers = all(content.size for content in narrow if content.origin is not None)
    if integers:
        joined = _integers(max(content.size for content in narrow), origins)
        return None if joined is None else replace(joined, layout=layout)
    origin = _holding(origins)
    return None if origin is None else _Content(origin, layout=layout, is_scaled=is_scaled)


def _is_rounded(dtype: torch.dtype, content: _Content) -> bool:
    """Tell whether a float dtype says more of values that are converted to it than their origin.

    It holds what it rounds, scales included. Halves of scaled codes stand for the codes.
    """
    origin = content.origin
    if origin is None or dtype not in _FLOATS or (content.size and dtype == origin):
        return False
    if dtype in _FP8 and content.is_scaled:
        return True
    return origin in _FLOATS and _width(dtype) <= _width(origin)


def _width(dtype: torch.dtype) -> int:
    return 4 if dtype is _FP4 else 8 * dtype.itemsize


def _holding(origins: Iterable[torch.dtype | None]) -> torch.dtype | None:
    """Return the narrowest dtype that holds the values of all."""
    kinds = set(origins)
    if len(kinds) == 1:
        return next(iter(kinds))
    if kinds <= set(_FP8):
        return torch.float16
    if set(_HALVES) <= kinds:
        return torch.float16
    floats = [kind for kind in kinds if kind in _FLOATS]
    if len(floats) < len(kinds):  # with integers
        halves = [kind for kind in floats if kind in _HALVES]
        return halves[0] if halves else torch.float16
    return max(floats, key=_FLOATS.index)


def _integers(size: int, origins: Iterable[torch.dtype | None] = ()) -> _Content | None:
    kinds = set(origins)
    if len(kinds) == 1 and (kind := next(iter(kinds))) in _LARGEST and size <= _LARGEST[kind]:
        return _Content(kind, size)
    for most, dtype in _HELD.items():
        if size <= most:
            return _Content(dtype, size)
    return None


def _is_whole(number: float) -> bool:
    return math.isinf(number) or float(number).is_integer()


def _between(limits: tuple[float, float] | None) -> _Content | None:
    """Return the content of integers between limits."""
    if limits is None or not all(map(math.isfinite, limits)):
        return None
    least, most = (int(limit) for limit in limits)
    fitting = [torch.int8] if least >= -128 and most <= 127 else []
    fitting += [torch.uint8] if least >= 0 and most <= 255 else []
    return _integers(max(abs(least), abs(most)), fitting[:1])


def _number(value: object) -> _Content | None:
    """Return the content of a constant: 0, 1 and infinity fit every dtype."""
    if not isinstance(value, (bool, int, float)):
        return None
    if abs(value) in (0, 1, math.inf):
        return _Content(None)
    held = [d for d in _HALVES if float(torch.tensor(float(value), dtype=d)) == float(value)]
    return _Content(held[0]) if held else None


def _holds(content: _Content, number: object) -> bool:
    """Tell whether values of a content stay what they are where some are replaced by a number."""
    if not isinstance(number, (bool, int, float)) or content.is_scaled or content.origin is None:
        return False
    if content.size:
        least = 0 if content.origin is torch.uint8 else -content.size
        most = 127 if content.origin is torch.int8 else content.size
        return float(number).is_integer() and least <= number <= most
    if content.origin not in (*_FP8, *_HALVES):
        return False
    return float(torch.tensor(float(number), dtype=content.origin)) == float(number)


def _constant(use: TensorUse) -> _Content | None:
    """Return the content of a known tensor with few elements."""
    if use.value is None or use.value.size > 1 << 8 or not use.value.size:
        return None
    if use.value.dtype.kind not in "fiub":
        return None
    return _joined([_number(x.item()) for x in np.unique(use.value)])


def _filled(op: TracedOp) -> _Content | None:
    """Return the content of a tensor that an op makes of one number, or leaves as it is."""
    record = op.operator
    value = op.arguments.get("fill_value", op.arguments.get("value"))
    if value is not None:
        return _number(value)
    alike = record.family is Family.FILL or record.makes_zeros or not record.launches
    return _Content(None) if alike else None


def _is_data(op: TracedOp, use: TensorUse) -> bool:
    """Tell whether an operand's elements may be results: indices and masks are not."""
    record = op.operator
    if record.lookups:
        return use is op.arguments.get(record.lookups)
    if any(use is op.arguments.get(name) for name in record.decides):
        return False
    is_number = use.dtype.is_floating_point or use.dtype in _LARGEST
    return is_number or use.dtype is torch.bool or not op.result.dtype.is_floating_point


def _scales(op: TracedOp) -> bool:
    """Tell if it is a product or a quotient, also with a function of an operand's elements."""
    return bool(op.operator.linear and op.operator.multiplies) or op.operator.scales


def _holds_fp4(table: TensorUse) -> bool:
    """Tell whether a small table of known numbers has those of e2m1: it decodes packed fp4."""
    if table.value is None or table.numel > 1 << 8 or not table.numel:
        return False
    return bool(np.isin(np.abs(table.value), _FP4_VALUES).all())
