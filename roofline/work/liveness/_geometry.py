"""Boxes and masks of tensors: slicing them, and finding what readers want of a storage."""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from solkit.roofline.work.liveness._base import Box, Region
from solkit.roofline.work.masks import (
    as_axis,
    block_size,
    both,
    everything,
    in_blocks,
    joint_pattern,
    pattern_of,
    reduce_to,
)
from solkit.roofline.work.program import Mask, TensorUse


def whole(use: TensorUse) -> Box:
    """Return all of a tensor."""
    return [range(n) for n in use.shape]


def sliced(use: TensorUse, box: Sequence[range | None], needed: Mask | None = None) -> TensorUse:
    """Return a use narrowed to a box, and to a mask over it.

    Args:
        use: what is narrowed.
        box: ``None`` leaves a dimension whole.
        needed: the elements of the box that matter.
    """
    ranges = [r if r is not None else range(n) for r, n in zip(box, use.shape)]
    if needed is None and all(len(r) == n for r, n in zip(ranges, use.shape)):
        return use
    return replace(
        use,
        shape=tuple(len(r) for r in ranges),
        stride=tuple(step * r.step for step, r in zip(use.stride, ranges)),
        offset=use.offset + sum(r.start * step for r, step in zip(ranges, use.stride)),
        value=None if use.value is None else use.value[_index(ranges, use.value.shape)],
        mask=both(None if use.mask is None else use.mask[_index(ranges, use.mask.shape)], needed),
    )


def nothing_of(use: TensorUse) -> TensorUse:
    """Return a use that needs no element."""
    return sliced(use, [range(0)] * len(use.shape))


def _index(ranges: Sequence[range], shape: Sequence[int]) -> tuple[slice, ...]:
    """Return slices for an array whose dimensions may have size 1."""
    return tuple(
        slice(None) if n == 1 or not len(r) else slice(r.start, r[-1] + 1, r.step)
        for r, n in zip(ranges, shape)
    )


def broadcast(use: TensorUse, region: Region) -> TensorUse:
    """Return a use narrowed to what the wanted part of the broadcast result needs."""
    tail = region.box[len(region.box) - len(use.shape) :] if use.shape else []
    part = sliced(use, [None if n == 1 else r for n, r in zip(use.shape, tail)])
    if region.mask is None or use.value is not None:  # known data has to be read to be known
        return part
    return sliced(part, whole(part), reduce_to(region.mask, part.shape))


def live_region(output: TensorUse, uses: Sequence[TensorUse]) -> Region:
    """Return the smallest part of a tensor that holds all stored elements that `uses` see."""
    uses = [_split_like(output, use) for use in uses if use.numel]
    boxes = [_box(output, use) for use in uses]
    if not uses or any(use.dtype != output.dtype for use in uses):
        return Region.all_of(output)
    bounded = [box for box in boxes if box is not None]
    box = _bounding(bounded) if len(bounded) == len(boxes) else whole(output)
    alike = all(b == box for b in boxes)
    if alike and any(use.mask is None for use in uses):
        return Region(box, None)
    masks = [_mask_over(box, output, use) for use in uses] if alike else [None]
    known_masks = [mask for mask in masks if mask is not None]
    if len(known_masks) == len(masks):
        return _tightened(box, both(functools.reduce(operator.or_, known_masks)))
    union = _union(output, box, uses)
    if union is None and len(bounded) == len(boxes):
        union = _outer_mask(output, box, list(zip(bounded, uses)))
    return _tightened(box, union)


def _split_like(output: TensorUse, use: TensorUse) -> TensorUse:
    """Return the same elements with a dimension for each that a merged one runs through.

    Heads of a batch that are one dimension to a product are two of the tensor.
    """
    if use.value is not None:
        return use
    shape, strides, sizes = list[int](), list[int](), list[int]()
    for axis, (n, step) in enumerate(zip(use.shape, use.stride)):
        parts = [(n, step)]
        while (inner := _size_at(output, parts[0][1])) and parts[0][0] > inner:
            n, step = parts[0]
            if n % inner:
                break
            parts[:1] = [(n // inner, step * inner), (inner, step)]
        shape += [n for n, _ in parts]
        strides += [step for _, step in parts]
        is_masked = use.mask is not None and use.mask.shape[axis] > 1
        sizes += [n if is_masked else 1 for n, _ in parts]
    if len(shape) == len(use.shape):
        return use
    mask = None if use.mask is None else use.mask.reshape(sizes)
    return replace(use, shape=tuple(shape), stride=tuple(strides), mask=mask)


def _size_at(output: TensorUse, step: int) -> int:
    """Return the size of a tensor's dimension with a stride; 0 if it has none."""
    return next((n for n, own in zip(output.shape, output.stride) if own == step and n > 1), 0)


def _mask_over(box: Box, output: TensorUse, use: TensorUse) -> Mask | None:
    """Return the mask of a use of a whole box, as one over the box; ``None`` if dimensions differ.

    Dimensions may have another order, and those of size 1 may be missing.
    """
    if use.mask is None:
        return None
    own = [(n, step) for n, step in zip(use.shape, use.stride) if n > 1]
    dims = [(len(r), r.step * step) for r, step in zip(box, output.stride)]
    moving = [dim for dim in dims if dim[0] > 1]
    if sorted(own) != sorted(moving) or len(set(moving)) < len(moving):
        return None
    axes = [next(a for a, dim in enumerate(zip(use.shape, use.stride)) if dim == d) for d in moving]
    ones = [axis for axis, n in enumerate(use.shape) if n == 1]
    mask = use.mask.transpose([*axes, *ones])
    sizes = iter(mask.shape)
    return mask.reshape([next(sizes) if n > 1 else 1 for n, _ in dims])


def _tightened(box: Box, mask: Mask | None) -> Region:
    """Drop the indices of a masked box that the mask leaves empty, if the others are a range."""
    if mask is None or not mask.any():
        return Region(box, mask)
    cuts: list[range] = []
    for axis in range(mask.ndim):
        used = np.flatnonzero(mask.any(axis=tuple(d for d in range(mask.ndim) if d != axis)))
        step = int(used[1] - used[0]) if len(used) > 1 else 1
        cut = range(int(used[0]), int(used[-1]) + 1, step)
        cuts.append(cut if np.array_equal(used, cut) else range(cut.start, cut.stop))
    tight = [
        indices if n == 1 else indices[cut.start : cut.stop : cut.step]
        for indices, cut, n in zip(box, cuts, mask.shape)
    ]
    return Region(tight, both(mask[_index(cuts, mask.shape)]))


def live_mask(target: TensorUse, uses: Sequence[TensorUse]) -> Mask | None:
    """Return the elements of a view that some of `uses` see; ``None`` for all, or if unknown."""
    uses = [use for use in uses if use.numel]
    if not uses or any(use.dtype != target.dtype for use in uses):
        return None
    live: Mask | None = None
    for use in uses:  # one that sees all is mostly among the first
        mask = use.mask if use == target else _seen(target, use)
        if mask is None:
            return None
        live = mask if live is None else live | mask
        if live.all():
            return None
    return live


def without(use: TensorUse, taken: TensorUse) -> TensorUse:
    """Return a use without the elements that another use of its storage covers, as far as known."""
    if use.dtype != taken.dtype or not use.numel:
        return use
    seen = _seen(use, taken)
    return use if seen is None or not seen.any() else sliced(use, whole(use), ~seen)


_MAX_SEEN = 1 << 22  # elements without a repeat beyond which only boxes are taken apart


def _seen(view: TensorUse, other: TensorUse) -> Mask | None:
    """Return the elements of a view that another use covers; ``None`` if unknown."""
    box = _box(view, other) if other.mask is None else None
    if box is not None and all(view.stride[d] for d in range(len(box))):
        return _box_mask(box, view.shape)
    extent = 1 + max(_last(view), _last(other))
    mask = everything(len(other.shape)) if other.mask is None else other.mask
    pattern = pattern_of(other, mask, extent, _MAX_SEEN)
    return None if pattern is None else pattern.under(view)


def _box_mask(box: Box, shape: Sequence[int]) -> Mask:
    """Return a box as a mask: dimensions that it spans whole have size 1."""
    mask = everything(len(shape))
    for d, (indices, n) in enumerate(zip(box, shape)):
        if len(indices) < n:
            line = np.zeros(n, dtype=bool)
            line[list(indices)] = True
            mask = mask & as_axis(line, d, len(shape))
    return mask


def _last(use: TensorUse) -> int:
    """Return the furthest element of a storage that a use sees."""
    return use.offset + sum((n - 1) * step for n, step in zip(use.shape, use.stride))


def _bounding(boxes: Sequence[Box]) -> Box:
    bounds: Box = []
    for ranges in zip(*boxes):
        same = all(r == ranges[0] for r in ranges)
        low, high = min(r.start for r in ranges), max(r[-1] for r in ranges)
        bounds.append(ranges[0] if same else range(low, high + 1))
    return bounds


def _union(output: TensorUse, box: Box, uses: Sequence[TensorUse]) -> Mask | None:
    """Return all that `uses` want, as a mask over a box; ``None`` if that is all, or too large."""
    masks = [everything(len(use.shape)) if use.mask is None else use.mask for use in uses]
    views = [sliced(output, box), *uses]
    largest = math.gcd(*(block_size(use, mask) for use, mask in zip(uses, masks)))
    for size in sorted({math.gcd(largest, n) for n in (largest, *output.stride, 1)}, reverse=True):
        blocks = [block for use in views if (block := in_blocks(use, size)) is not None]
        if len(blocks) == len(views):
            break
    last = output.offset + math.prod(n for n, step in zip(output.shape, output.stride) if step)
    pattern = joint_pattern(zip(blocks[1:], masks), -(-last // size))
    return both(None if pattern is None else pattern.under(blocks[0]))


def _outer_mask(output: TensorUse, box: Box, uses: Sequence[tuple[Box, TensorUse]]) -> Mask | None:
    """Return what `uses` want of a box along some of its dimensions; ``None`` if that is all.

    Dimensions along which no mask changes may be left out, where all together are too large.

    Args:
        output: the tensor.
        box: holds all that is wanted.
        uses: each with its own box.
    """
    ndim = len(box)
    masks = [_mask_over(own, output, use) for own, use in uses]
    wanted_masks = [everything(ndim) if mask is None else mask for mask in masks]
    masked = {d for mask in wanted_masks for d in range(ndim) if mask.shape[d] > 1}
    kept = masked | {d for d in range(ndim) if any(own[d] != box[d] for own, _ in uses)}
    while math.prod(len(box[d]) for d in kept) > _MAX_OUTER:
        if kept == masked:
            return None
        kept.remove(max(kept - masked, key=lambda d: len(box[d])))
    outer = np.zeros([len(r) if d in kept else 1 for d, r in enumerate(box)], dtype=bool)
    for (own, _), mask in zip(uses, wanted_masks):
        outer[
            tuple(_places(own[d], box[d]) if d in kept else slice(None) for d in range(ndim))
        ] |= mask
    return both(outer)


_MAX_OUTER = 1 << 24  # elements of such a mask


def _places(indices: range, bounds: range) -> slice:
    """Return where indices lie among others that hold them."""
    first, step = (indices.start - bounds.start) // bounds.step, indices.step // bounds.step
    return slice(first, first + (len(indices) - 1) * step + 1, step)


def _box(output: TensorUse, use: TensorUse) -> Box | None:
    """Return a strided region of a storage as a box of the tensor that the storage was made for."""
    if use.dtype != output.dtype:
        return None
    order = sorted(range(len(output.shape)), key=lambda d: -output.stride[d])
    starts, rest = {}, use.offset - output.offset
    for d in order:
        step = output.stride[d]
        starts[d], rest = divmod(rest, step) if step else (0, rest)
    box = {d: range(starts[d], starts[d] + 1) for d in order}
    for n, stride in zip(use.shape, use.stride):
        if n == 1 or stride == 0:
            continue
        fits = [d for d in order if output.stride[d] in range(1, stride + 1)]
        if not fits or stride % output.stride[fits[0]] or len(box[fits[0]]) > 1:
            return None
        d = fits[0]
        step = stride // output.stride[d]
        box[d] = range(starts[d], starts[d] + (n - 1) * step + 1, step)
    inside = all(box[d].start >= 0 and box[d][-1] < output.shape[d] for d in order)
    return [box[d] for d in range(len(order))] if inside and rest == 0 else None
