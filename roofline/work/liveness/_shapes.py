"""Ops that put tensors together, or move their elements."""

from __future__ import annotations

import numpy as np

from solkit.roofline.work.liveness._base import Box, Needs, Region, rule
from solkit.roofline.work.liveness._geometry import sliced, whole
from solkit.roofline.work.program import Mask, TracedOp


@rule("cat")
def _cat(op: TracedOp, region: Region) -> Needs:
    """Narrow each part to its overlap with the box."""
    box = region.box
    dim = op.arguments.get("dim", 0) % len(box)
    needs, start = {}, 0
    for use in op.inputs:
        if len(use.shape) != len(box):  # torch.cat skips empty 1-d tensors
            continue
        size = use.shape[dim]
        part, places = _overlap(box[dim], start, start + size)
        needs[id(use)] = sliced(use, _with(box, dim, part), _taken(region.mask, dim, places))
        start += size
    return needs


@rule("stack")
def _stack(op: TracedOp, region: Region) -> Needs:
    """Narrow each part to its place along the new dimension, or to nothing."""
    box = region.box
    dim = op.arguments.get("dim", 0) % len(box)
    rest = [*box[:dim], *box[dim + 1 :]]
    needs = {}
    for place, use in enumerate(op.inputs):
        if place in box[dim]:
            mask = _taken(region.mask, dim, slice(*[box[dim].index(place) + i for i in (0, 1)]))
            flat = None if mask is None else mask.squeeze(dim)
            needs[id(use)] = sliced(use, rest, flat)
        else:
            needs[id(use)] = sliced(use, [range(0) for _ in rest])
    return needs


@rule("pad")
def _pad(op: TracedOp, region: Region) -> Needs:
    """Return the part of the box that lies inside; a margin may be negative."""
    x, pad = op.inputs[0], op.arguments["pad"]
    box, mask = list(region.box), region.mask
    for axis, before in enumerate(pad[::2]):
        dim = len(box) - 1 - axis
        box[dim], places = _overlap(box[dim], before, before + x.shape[dim])
        mask = _taken(mask, dim, places)
    return {id(x): sliced(x, box, mask)}


@rule("flip")
def _flip(op: TracedOp, region: Region) -> Needs:
    """Return the mirrored box."""
    x, box, mask = op.inputs[0], list(region.box), region.mask
    for dim in (d % len(box) for d in op.arguments["dims"]):
        r, n = box[dim], x.shape[dim]
        if len(r):
            box[dim] = range(n - 1 - r[-1], n - r.start, r.step)
        mask = None if mask is None else np.flip(mask, dim)
    return {id(x): sliced(x, box, mask)}


@rule("repeat")
def _repeat(op: TracedOp, region: Region) -> Needs:
    """Narrow to elements with a live copy; new dimensions come first."""
    x = op.inputs[0]
    if region.is_all_of(op.outputs[0]) or not x.shape or not all(x.shape):
        return {}
    mask = np.zeros(op.outputs[0].shape, dtype=bool)
    mask[np.ix_(*(np.asarray(r) for r in region.box))] = (
        True if region.mask is None else region.mask
    )
    new = mask.ndim - len(x.shape)
    copies = [part for n, m in zip(x.shape, mask.shape[new:]) for part in (m // n, n)]
    axes = tuple(new + 2 * d for d in range(len(x.shape)))
    sources = mask.reshape(*mask.shape[:new], *copies).any(axis=(*range(new), *axes))
    return {id(x): sliced(x, whole(x), np.asarray(sources))}


@rule("roll")
def _roll(op: TracedOp, region: Region) -> Needs:
    """Return the wanted part, moved back."""
    x, dims = op.inputs[0], op.arguments.get("dims") or []
    if not dims or region.is_all_of(op.outputs[0]):
        return {}
    mask = np.zeros(x.shape, dtype=bool)
    part = True if region.mask is None else region.mask
    mask[np.ix_(*(np.asarray(r) for r in region.box))] = part
    back = [-shift for shift in op.arguments["shifts"]]
    return {id(x): sliced(x, whole(x), np.roll(mask, back, dims))}


def _overlap(indices: range, start: int, stop: int) -> tuple[range, slice]:
    """Return the part of `indices` in [start, stop), counted from `start`; and its positions."""
    first, last = _position(indices, start), _position(indices, stop)
    inside = indices[first:last]
    return range(inside.start - start, inside.stop - start, inside.step), slice(first, last)


def _position(indices: range, edge: int) -> int:
    """Count the `indices` below `edge`."""
    return min(max(0, -((indices.start - edge) // indices.step)), len(indices))


def _with(box: Box, dim: int, part: range) -> Box:
    return [*box[:dim], part, *box[dim + 1 :]]


def _taken(mask: Mask | None, dim: int, places: slice) -> Mask | None:
    """Return the part of a mask along one dimension."""
    if mask is None or mask.shape[dim] == 1:
        return mask
    return mask[tuple(places if d == dim % mask.ndim else slice(None) for d in range(mask.ndim))]
