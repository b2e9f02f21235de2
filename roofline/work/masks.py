"""Sets of elements: as a mask over a tensor, and as a pattern over a storage.

A *mask* is a boolean array that broadcasts to a tensor's shape; dimensions along which nothing
changes have size 1, so that a triangle over [B, H, L, L] scores takes L x L booleans. Tensors are
views of storages, often reshaped on the way from the op that makes them to the one that reads
them. A *pattern* is what such a mask says of the storage: booleans that repeat.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

from solkit.roofline.work.program import Mask, TensorUse

T = TypeVar("T", bound=np.generic)
Bits: TypeAlias = npt.NDArray[np.bool_]

_MAX_BITS = 1 << 26  # beyond it a mask is not made, and everything counts


@dataclass(frozen=True)
class Pattern:
    """A set of elements of a storage.

    Attributes:
        bits: element ``e`` of the storage is in the set where ``bits[e // block % len(bits)]``.
        block: so many elements lie together of which the set has all or none.
    """

    bits: Bits
    block: int = 1

    def under(self, use: TensorUse) -> Mask | None:
        """Return the set as a mask over a view; ``None`` if that is too large."""
        steps = sorted({math.gcd(self.block, step) for step in (*use.stride, 1)}, reverse=True)
        for block in steps:  # the largest blocks that the view does not cut
            blocks, cut = in_blocks(use, block), self.cut(block)
            if blocks is not None and cut is not None:
                return cut._under_blocks(blocks)
        return None

    def _under_blocks(self, use: TensorUse) -> Mask | None:
        period = self.bits.size
        shape = _varying(use, period)
        start = use.offset % period
        if math.prod(shape) > max(_MAX_BITS, period):  # of windows that overlap, too
            return None
        if start + sum((n - 1) * step for n, step in zip(shape, use.stride)) < period:
            return _view(self.bits, start, shape, use.stride)
        places = np.full((1,) * len(shape), start, dtype=np.int64)
        for axis, (n, step) in enumerate(zip(shape, use.stride)):
            places = places + as_axis(np.arange(n, dtype=np.int64) * step, axis, len(shape))
        return self.bits[places % period]

    def cut(self, block: int) -> Pattern | None:
        """Return the same set in smaller blocks; ``None`` if that is too large."""
        copies = self.block // block
        if self.bits.size * copies > _MAX_BITS:
            return self if copies == 1 else None
        return self if copies == 1 else Pattern(np.repeat(self.bits, copies), block)


def pattern_of(use: TensorUse, mask: Mask, extent: int, most: int = _MAX_BITS) -> Pattern | None:
    """Return a mask over a view, as a pattern of the storage; ``None`` if that is too large.

    Args:
        use: the view.
        mask: broadcasts to its shape.
        extent: elements of the storage.
        most: the largest period, in elements.
    """
    return joint_pattern([(use, mask)], extent, most)


def joint_pattern(
    views: Iterable[tuple[TensorUse, Mask]], extent: int, most: int = _MAX_BITS
) -> Pattern | None:
    """Return the union of masks over views of a storage; ``None`` if one is too large.

    Views of one period share their bits: thousands of them may look at a large storage.

    Args:
        views: the views with their masks.
        extent: elements of the storage.
        most: the largest period, in elements.
    """
    bits_by_period: dict[tuple[int, int], Bits] = {}
    for use, mask in views:
        use, mask, block = _coarsest(use, mask, extent)
        period = _period(use, mask, extent // block)
        if period > most or period == 0:
            return None
        shape = _varying(use, period)
        start = use.offset % period
        if start + sum((n - 1) * step for n, step in zip(shape, use.stride)) >= period:
            return None  # it wraps around: no view of one period
        if (period, block) not in bits_by_period:
            bits_by_period[period, block] = np.zeros(period, dtype=bool)
        target = _view(bits_by_period[period, block], start, shape, use.stride)
        np.logical_or(target, reduce_to(mask, shape), out=target)
    return union([Pattern(bits, block) for (_, block), bits in bits_by_period.items()])


def _coarsest(use: TensorUse, mask: Mask, extent: int) -> tuple[TensorUse, Mask, int]:
    """Return a view and its mask in the largest blocks that fit, and their size."""
    whole = 1
    while (block := block_size(use, mask)) > 1 and extent // whole % block == 0:
        blocks = in_blocks(use, block)
        if blocks is None:
            break
        use, mask, whole = blocks, reduce_to(mask, blocks.shape), whole * block
    return use, mask, whole


def block_size(use: TensorUse, mask: Mask) -> int:
    """Return the largest run of storage elements that a mask takes whole or leaves."""
    size, dims = 1, _moving(use, mask)
    while dims and dims[0][0] == size and dims[0][2] == 1:
        size *= dims.pop(0)[1]
    return math.gcd(size, use.offset, *(step for step, *_ in dims))


def in_blocks(use: TensorUse, size: int) -> TensorUse | None:
    """Return a view in blocks of `size` elements; ``None`` if its dimensions cut blocks."""
    outer = [step % size == 0 for step in use.stride]
    inner = [(n, step) for n, step, out in zip(use.shape, use.stride, outer) if not out]
    reach = use.offset % size + sum((n - 1) * step for n, step in inner)
    if reach >= size or any(n > 1 and n * step > size for n, step in inner):
        return None
    return replace(
        use,
        shape=tuple(n if out else 1 for n, out in zip(use.shape, outer)),
        stride=tuple(step // size for step in use.stride),
        offset=use.offset // size,
        value=None,
        mask=None,
    )


def _moving(use: TensorUse, mask: Mask) -> list[tuple[int, int, int]]:
    """Return the dimensions that move through the storage: (stride, size, the mask's size)."""
    dims = zip(use.stride, use.shape, mask.shape)
    return sorted((step, n, size) for step, n, size in dims if n > 1 and step)


def _period(use: TensorUse, mask: Mask, extent: int) -> int:
    """Return the period of the mask along the storage: dimensions that it spans whole drop out."""
    span = extent
    for step, n, size in reversed(_moving(use, mask)):
        if size != 1 or n * step != span or use.offset % span >= step:
            break
        span = step
    return span


def _varying(use: TensorUse, period: int) -> tuple[int, ...]:
    """Return the shape of a mask over a view that repeats after so many elements of the storage."""
    return tuple(1 if step % period == 0 else n for n, step in zip(use.shape, use.stride))


def _view(bits: Bits, start: int, shape: Sequence[int], stride: Sequence[int]) -> Bits:
    return np.lib.stride_tricks.as_strided(bits[start:], shape, stride)


def as_axis(line: npt.NDArray[T], axis: int, ndim: int) -> npt.NDArray[T]:
    """Return a line of values along one axis of `ndim`, the others of size 1."""
    return line.reshape([-1 if d == axis else 1 for d in range(ndim)])


def union(patterns: Sequence[Pattern | None]) -> Pattern | None:
    """Return the union of sets; ``None`` if one is missing or periods do not fit."""
    if len(patterns) == 1:
        return patterns[0]
    block = math.gcd(*(p.block for p in patterns if p is not None))
    cut = [p and p.cut(block) for p in patterns]
    cut_bits = [p.bits for p in cut if p is not None]
    longest = max(bits.size for bits in cut_bits) if cut_bits else 0
    if len(cut_bits) < len(patterns) or any(longest % bits.size for bits in cut_bits):
        return None
    bits = np.zeros(longest, dtype=bool)
    for part in cut_bits:
        bits.reshape(-1, part.size)[...] |= part
    return Pattern(bits, block)


def difference(pattern: Pattern, taken: Pattern) -> Pattern | None:
    """Return a set without another one; ``None`` if periods do not fit."""
    block = math.gcd(pattern.block, taken.block)
    cut, other = pattern.cut(block), taken.cut(block)
    if cut is None or other is None:
        return None
    longest = max(cut.bits.size, other.bits.size)
    if longest % cut.bits.size or longest % other.bits.size:
        return None
    bits = np.resize(cut.bits, longest) & ~np.resize(other.bits, longest)
    return Pattern(bits, block)


def everything(ndim: int) -> Mask:
    """Return the mask that leaves nothing out."""
    return np.ones((1,) * ndim, dtype=bool)


def compact(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return an array with its repeated dimensions (stride 0) cut to size 1."""
    return values[tuple(slice(0, 1) if not step else slice(None) for step in values.strides)]


def narrowest(mask: Mask) -> Mask:
    """Return a mask with size 1 along dimensions in which nothing changes."""
    for axis, n in enumerate(mask.shape):
        line = mask[(slice(None),) * axis + (slice(0, 1),)]
        if n > 1 and np.array_equal(mask, np.broadcast_to(line, mask.shape)):
            mask = line
    return mask


def lifted(mask: Mask, ndim: int) -> Mask:
    """Return a mask with leading dimensions of size 1, so that it has `ndim` of them."""
    return mask.reshape((1,) * (ndim - mask.ndim) + mask.shape)


def any_along(mask: Mask, axis: int) -> Mask:
    """Tell whether anything matters along an axis, which is kept with size 1."""
    along: Mask = np.asarray(mask.any(axis=axis, keepdims=True))
    return along


def both(*masks: Mask | None) -> Mask | None:
    """Return the intersection of masks; ``None`` stands for everything."""
    joined: Mask | None = None
    for mask in masks:
        if mask is not None:
            joined = mask if joined is None else joined & mask
    return joined if joined is None or not joined.all() else None


def reduce_to(mask: Mask, shape: Sequence[int]) -> Mask:
    """Return a mask over a broadcast tensor as one over a tensor of `shape` that was broadcast.

    An element matters where any of its copies does.
    """
    mask = mask.reshape((1,) * (len(shape) - mask.ndim) + mask.shape)
    extra = mask.ndim - len(shape)
    mask = np.asarray(mask.any(axis=tuple(range(extra)))) if extra else mask
    axes = tuple(d for d, n in enumerate(shape) if n == 1 and mask.shape[d] != 1)
    return np.asarray(mask.any(axis=axes, keepdims=True)) if axes else mask


def joined_masks(
    parts: Sequence[TensorUse], masks: Sequence[Mask | None], axis: int
) -> Mask | None:
    """Return masks over tensors as one over these behind each other along an axis."""
    if all(mask is None for mask in masks):
        return None
    shapes = [
        [n if d == axis or any(m is not None and m.shape[d] > 1 for m in masks) else 1
         for d, n in enumerate(part.shape)]
        for part in parts
    ]  # fmt: skip
    whole = [
        np.broadcast_to(np.zeros((), dtype=bool) if mask is None else mask, shape)
        for mask, shape in zip(masks, shapes)
    ]
    joined: Mask = np.concatenate(whole, axis=axis)
    return joined
