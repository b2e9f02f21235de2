"""Ops that read what an index names: rows, single elements, masked elements.

Where the index is known, a mask over the table says exactly what is read. Where it is not, as many
rows count as it could name, taken to be distinct; *which* ones does not matter to the cost, so the
first ones stand for them, marked as not sure.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from solkit.roofline.work.liveness._base import Box, Needs, Region, rule
from solkit.roofline.work.liveness._geometry import sliced, whole
from solkit.roofline.work.masks import as_axis
from solkit.roofline.work.program import Mask, TensorUse, TracedOp

_MAX_TABLE = 1 << 26  # elements of a table beyond which no mask is made over it
_MAX_PART = 1 << 24  # elements of a mask over looked-up rows beyond which whole rows count


@rule("embedding")
def _embedding(op: TracedOp, region: Region) -> Needs:
    weight, indices = op.arguments["weight"], op.arguments["indices"]
    index = sliced(indices, region.box[:-1])
    table = sliced(weight, [None, region.box[-1]])
    return {id(weight): along(table, 0, index), id(indices): index}


@rule("index select")
def _index_select(op: TracedOp, region: Region) -> Needs:
    table, index = op.arguments["self"], op.arguments["index"]
    if not table.shape or not index.shape:
        return {}
    dim = op.arguments["dim"] % len(table.shape)
    chosen = sliced(index, [region.box[dim]])
    box: list[range | None] = [*region.box[:dim], None, *region.box[dim + 1 :]]
    return {
        id(table): along(sliced(table, box), dim, chosen, region.mask),
        id(index): _looked_at(chosen, dim, region.mask, table),
    }


@rule("bag")
def _embedding_bag(op: TracedOp, region: Region) -> Needs:
    del region
    weight = op.arguments["weight"]
    return {id(weight): along(weight, 0, op.arguments["indices"])}


@rule("gather")
def _gather(op: TracedOp, region: Region) -> Needs:
    table, index = op.arguments["self"], op.arguments["index"]
    if not table.shape:
        return {}
    dim = op.arguments["dim"] % len(table.shape)
    chosen = sliced(index, region.box)
    return {id(table): at_positions(table, dim, chosen), id(index): chosen}


@rule("index")
def _index(op: TracedOp, region: Region) -> Needs:
    """``table[i]``, ``table[i, :, j]``, ``table[mask]``."""
    table, indices = op.arguments["self"], op.arguments["indices"]
    tensors = [(dim, use) for dim, use in enumerate(indices) if use is not None]
    single = len(tensors) == 1 and tensors[0][1].dtype not in (torch.bool, torch.uint8)
    if not single:
        return {id(table): at_indices(table, indices), id(op.outputs[0]): op.outputs[0]}
    ((dim, index),) = tensors
    stop = dim + len(index.shape)
    chosen = sliced(index, region.box[dim:stop])
    box = [*region.box[:dim], None, *region.box[stop:]]
    return {
        id(table): along(sliced(table, box), dim, chosen, region.mask),
        id(index): _looked_at(chosen, dim, region.mask, table),
    }


@rule("ctc")
def _ctc_loss(op: TracedOp, region: Region) -> Needs:
    """Take of each sequence the classes of its labels, and the blank one."""
    del region
    x, targets = op.arguments["log_probs"], op.arguments["targets"]
    own = {id(output): output for output in op.outputs}
    if len(targets.shape) != 2:
        return {id(x): x, **own}
    if targets.value is None:
        box = whole(x)
        box[2] = range(min(x.shape[2], targets.shape[1] + 1))
        return {id(x): replace(sliced(x, box), sure=False), **own}
    mask = np.zeros((1, *x.shape[1:]), dtype=bool)
    mask[:, :, op.arguments.get("blank", 0)] = True
    np.put_along_axis(mask[0], targets.value.astype(np.int64), True, axis=1)
    return {id(x): sliced(x, whole(x), mask), **own}


_GRID_TAPS = {0: 2, 1: 1, 2: 4}
"""Elements along each axis around a point: linear, nearest, cubic."""


@rule("grid sample")
def _grid_sample(op: TracedOp, region: Region) -> Needs:
    """Take as many elements as the points have neighbours; the grid's data decide *which* ones."""
    x, grid = op.inputs[:2]
    axes = range(2, len(x.shape))
    neighbours = _GRID_TAPS[op.arguments.get("interpolation_mode", 0)] ** len(axes)
    points = math.prod(grid.shape[1:-1])
    plane = sliced(x, [*region.box[:2], *[None] * len(axes)])
    if neighbours * points >= math.prod(x.shape[2:]):
        return {id(x): plane, id(op.outputs[0]): op.outputs[0]}
    return {id(x): _some(plane, axes, neighbours * points), id(op.outputs[0]): op.outputs[0]}


@rule("grid sample backward")
def _grid_sample_backward(op: TracedOp, region: Region) -> Needs:
    """Take no element of the input for its own gradient; for the grid's those that are sampled."""
    del region
    x, grid = op.arguments["input"], op.arguments["grid"]
    none = np.zeros((1,) * len(x.shape), dtype=bool)
    axes = range(2, len(x.shape))
    count = _GRID_TAPS[op.arguments.get("interpolation_mode", 0)] ** len(axes)
    count *= math.prod(grid.shape[1:-1])
    needed = sliced(x, whole(x), None if op.arguments["output_mask"][1] else none)
    if op.arguments["output_mask"][1] and count < math.prod(x.shape[2:]):
        needed = _some(needed, axes, count)
    return {id(x): needed, **{id(output): output for output in op.outputs}}


@rule("masked scatter")
def _masked_scatter(op: TracedOp, region: Region) -> Needs:
    """Take of the target what the mask leaves; all that the source has is taken to be placed."""
    x, mask, source = (op.arguments[name] for name in ("self", "mask", "source"))
    is_whole = region.mask is None and all(map(_is_all, region.box, op.outputs[0].shape))
    if not is_whole or x.shape != op.outputs[0].shape:
        return {id(x): sliced(x, region.box, region.mask)} if x.shape == op.outputs[0].shape else {}
    if mask.value is not None:
        chosen = np.broadcast_to(mask.value.astype(bool), x.shape)
        return {id(x): sliced(x, whole(x), ~chosen)}
    if not 0 < source.numel < x.numel:
        return {}
    *leading, last = x.shape
    rows = np.arange(math.prod(leading)) < (x.numel - source.numel) // last
    return {id(x): replace(sliced(x, whole(x), rows.reshape(*leading, 1)), sure=False)}


def _is_all(places: range, size: int) -> bool:
    return len(places) == size


@rule("take")
def _take(op: TracedOp, region: Region) -> Needs:
    """Return elements of the flattened tensor."""
    table, index = op.arguments["self"], op.arguments["index"]
    chosen = sliced(index, region.box)
    if chosen.value is None or table.numel > _MAX_TABLE:
        return {id(table): _some(table, range(len(table.shape)), chosen.numel), id(index): chosen}
    mask = np.zeros(table.numel, dtype=bool)
    mask[chosen.value.ravel()] = True
    return {id(table): sliced(table, whole(table), mask.reshape(table.shape)), id(index): chosen}


@rule("masked select")
def _masked_select(op: TracedOp, region: Region) -> Needs:
    del region
    table, mask = op.arguments["self"], op.arguments["mask"]
    if mask.value is None or mask.shape != table.shape:
        return {id(table): replace(table, sure=False)}
    return {id(table): sliced(table, whole(table), mask.value.astype(bool))}


def named_at_most(index: TensorUse) -> int:
    """Count the places that an unknown index can name."""
    return index.distinct if index.choices is None else min(index.distinct, index.choices)


def along(table: TensorUse, dim: int, index: TensorUse, part: Mask | None = None) -> TensorUse:
    """Return the rows of a table that an index names along `dim`.

    Args:
        table: the table.
        dim: the dimension that the index's dimensions replace in the result.
        index: any number of dimensions.
        part: the elements of the result that matter; ``None`` where all do.
    """
    count = table.shape[dim]
    if index.value is None:
        rows: Box = whole(table)
        rows[dim] = range(min(count, named_at_most(index)))
        return replace(sliced(table, rows), sure=False)
    line = np.zeros(count, dtype=bool)
    places = index.value.ravel().astype(np.int64)
    named = (-count <= places) & (places < count)  # others would fail on a GPU
    line[places[named]] = True
    mask = as_axis(line, dim, len(table.shape))
    if part is not None and named.all() and _moved_size(part, dim, index, count) <= _MAX_PART:
        mask = _moved(part, dim, index.shape, places, count)
    return sliced(table, whole(table), mask)


def _moved_size(part: Mask, dim: int, index: TensorUse, count: int) -> int:
    """Return the most elements that a mask has on its way from looked-up rows to their table."""
    others = (*part.shape[:dim], *part.shape[dim + len(index.shape) :])
    return math.prod(others) * max(count, math.prod(index.shape))


def _moved(
    part: Mask, dim: int, named: Sequence[int], places: npt.NDArray[np.int64], count: int
) -> Mask:
    """Return a mask over looked-up rows as one over the table that they come from."""
    before, after = part.shape[:dim], part.shape[dim + len(named) :]
    rows = np.broadcast_to(part, (*before, *named, *after)).reshape(*before, -1, *after)
    moved = np.zeros((*before, count, *after), dtype=bool)
    at = list(rows.nonzero())
    at[dim] = places[at[dim]]
    moved[tuple(at)] = True
    return moved


def _looked_at(index: TensorUse, dim: int, part: Mask | None, table: TensorUse) -> TensorUse:
    """Return the part of an index that names something that matters.

    Where a table has known lines, such as one of zeros, the index itself says what matters.
    """
    if part is None or table.mask is not None:
        return index
    inner = range(dim, dim + len(index.shape))
    others = tuple(d for d in range(part.ndim) if d not in inner)
    return sliced(index, whole(index), np.asarray(part.any(axis=others)))


def at_positions(table: TensorUse, dim: int, index: TensorUse) -> TensorUse:
    """Return the elements that a `gather` reads: along `dim` by value, else by position."""
    places: Box = [range(n) for n in index.shape]
    places[dim] = range(table.shape[dim])
    named = None if index.value is None else _without_repeats(index.value)
    if named is None or max(table.numel, named.size) > _MAX_TABLE:
        places[dim] = range(min(table.shape[dim], index.shape[dim], index.choices or index.numel))
        return replace(sliced(table, places), sure=False)
    mask = np.zeros(table.shape, dtype=bool)
    reached = mask[tuple(slice(len(r)) for r in places)]
    lines = np.zeros([*named.shape[:dim], table.shape[dim], *named.shape[dim + 1 :]], dtype=bool)
    np.put_along_axis(lines, named.astype(np.int64), True, axis=dim)
    reached |= lines
    return sliced(table, whole(table), mask)


def _without_repeats(places: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return an index with one element along each axis that repeats it, as an expanded one's do."""
    return places[tuple(slice(None if stride else 1) for stride in places.strides)]


def at_indices(table: TensorUse, indices: Sequence[TensorUse | None]) -> TensorUse:
    """Return the elements that several index tensors, or boolean masks, name together."""
    tensors = [use for use in indices if use is not None]
    if any(use.value is None for use in tensors):
        dims = [d for d, use in enumerate(indices) if use is not None]
        if any(use.dtype in (torch.bool, torch.uint8) for use in tensors):
            return replace(table, sure=False)  # a mask may choose everything
        number = math.prod(np.broadcast_shapes(*(use.shape for use in tensors)))
        choices = math.prod(named_at_most(use) for use in tensors)
        return _some(table, dims, min(number, choices))
    lines = _integers([None if use is None else use.value for use in indices])
    dims = [d for d, values in enumerate(lines) if values is not None]
    shape = [n if d in dims else 1 for d, n in enumerate(table.shape)]
    if math.prod(shape) > _MAX_TABLE:
        return replace(table, sure=False)
    mask = np.zeros(shape, dtype=bool)
    mask[tuple(0 if values is None else values for values in _padded(lines, mask.ndim))] = True
    return sliced(table, whole(table), mask)


def _integers(
    values: Sequence[npt.NDArray[np.generic] | None],
) -> list[npt.NDArray[np.int64] | None]:
    """Boolean masks as the integer indices of their dimensions."""
    positions: list[npt.NDArray[np.int64] | None] = []
    for value in values:
        if value is not None and value.dtype.kind == "b":
            positions.extend(value.nonzero())
        else:
            positions.append(None if value is None else value.astype(np.int64))
    return positions


def _padded(
    lines: Sequence[npt.NDArray[np.int64] | None], ndim: int
) -> list[npt.NDArray[np.int64] | None]:
    return [*lines, *[None] * (ndim - len(lines))]


def _some(table: TensorUse, dims: Sequence[int], number: int) -> TensorUse:
    """Return `number` elements of the dimensions `dims` together, rounded down to whole lines."""
    box = whole(table)
    for position, dim in enumerate(dims):
        inner = math.prod(table.shape[d] for d in dims[position + 1 :])
        box[dim] = range(max(1, min(table.shape[dim], number // max(inner, 1))))
    return replace(sliced(table, box), sure=False)
