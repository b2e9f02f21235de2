"""Ops that need whole lines: reductions, softmax, norms."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from solkit.roofline.work.liveness._base import Needs, Region, Rule, rule
from solkit.roofline.work.liveness._geometry import nothing_of, sliced, whole
from solkit.roofline.work.masks import any_along, as_axis, both
from solkit.roofline.work.program import Mask, TensorUse, TracedOp


@rule("line")
def _along_a_dimension(op: TracedOp, region: Region) -> Needs:
    """Return a wanted element needs its whole line."""
    output, dim = op.outputs[0], op.arguments["dim"]
    if not output.shape:
        return {}
    box = list(region.box)
    box[dim] = range(output.shape[dim])
    lines = None if region.mask is None else both(any_along(region.mask, dim))
    aligned = [use for use in op.inputs if use.shape == output.shape]
    return {id(use): sliced(use, box, lines) for use in (*aligned, output)}


@rule("sorted line")
def _sorted_line(op: TracedOp, region: Region) -> Needs:
    """Return a wanted place of a sorted line needs all of the line."""
    x, dim = op.inputs[0], op.arguments.get("dim", -1)
    if not x.shape:
        return {}
    box: list[range | None] = list(region.box)
    box[dim] = None
    lines = None if region.mask is None else both(any_along(region.mask, dim))
    return {id(x): sliced(x, box, lines)}


@rule("scan")
def _scan(op: TracedOp, region: Region) -> Needs:
    """Return a wanted element needs its line up to itself."""
    x, output = op.inputs[0], op.outputs[0]
    if not output.shape or not all(len(r) for r in region.box):
        return {}
    dim = op.arguments["dim"] % len(output.shape)
    box = [*region.box[:dim], range(region.box[dim][-1] + 1), *region.box[dim + 1 :]]
    mask = None if region.mask is None else _before(region.mask, dim, region.box[dim])
    return {id(use): sliced(use, box, mask) for use in (x, output)}


def _before(mask: Mask, dim: int, places: range) -> Mask | None:
    """Return what comes before some masked element of a line."""
    if mask.shape[dim] == 1:
        return both(mask)
    line = np.zeros((*mask.shape[:dim], places[-1] + 1, *mask.shape[dim + 1 :]), dtype=bool)
    np.moveaxis(line, dim, 0)[list(places)] = np.moveaxis(mask, dim, 0)
    return both(np.flip(np.logical_or.accumulate(np.flip(line, dim), axis=dim), dim))


@rule("layer norm")
def _layer_norm(op: TracedOp, region: Region) -> Needs:
    """Return a wanted element needs its whole row; the statistics follow the rows."""
    output, x = op.outputs[0], op.arguments["input"]
    kept = len(output.shape) - len(op.arguments["normalized_shape"])
    return _leading_part(region, [x, *op.outputs], kept)


def _leading_part(region: Region, uses: list[TensorUse], count: int) -> Needs:
    """Return the wanted part of the first dimensions, and all of the others."""
    needs: Needs = {}
    for use in uses:
        others = len(use.shape) - count
        if others >= 0:
            lines = _first_axes(region.mask, count)
            lines = lines if lines is None else lines.reshape(lines.shape + (1,) * others)
            needs[id(use)] = sliced(use, [*region.box[:count], *[None] * others], lines)
    return needs


def _first_axes(mask: Mask | None, count: int) -> Mask | None:
    """Return a mask over the first dimensions of a tensor: where any of the others matters."""
    if mask is None:
        return None
    return both(np.asarray(mask.any(axis=tuple(range(count, mask.ndim)))))


def _leading(count: int) -> Rule:
    """Return the output's first dimensions are the input's; the others stay whole."""

    def narrow(op: TracedOp, region: Region) -> Needs:
        return _leading_part(region, [op.inputs[0], op.outputs[0]], count)

    return narrow


rule("batch and channel")(_leading(2))
rule("batch")(_leading(1))


@rule("batch norm", "given batch norm")
def _batch_norm(op: TracedOp, region: Region) -> Needs:
    """Channels; with given statistics, elements."""
    x, output = op.inputs[0], op.outputs[0]
    training = op.arguments.get("training", op.operator.needs == "batch norm")
    box = [range(n) for n in output.shape] if training else list(region.box)
    box[1] = region.box[1]
    channels = [use for use in op.inputs[1:] if use.shape == output.shape[1:2]]
    return {
        **{id(use): sliced(use, box, None if training else region.mask) for use in (x, output)},
        **{id(use): sliced(use, [box[1]]) for use in channels},
    }


@rule("norm backward")
def _norm_backward(op: TracedOp, region: Region) -> Needs:
    """Return the wanted rows; a bias has a gradient, but is not read."""
    output = op.outputs[0]
    shape = op.arguments.get("normalized_shape")
    kept = 1 if shape is None else len(output.shape) - len(shape)
    rows = [use for use in op.inputs if use.shape[:kept] == output.shape[:kept]]
    needs = _leading_part(region, [*rows, output], kept)
    bias = op.arguments.get("bias")
    if isinstance(bias, TensorUse) and bias is not op.arguments.get("weight"):
        needs[id(bias)] = nothing_of(bias)
    return needs


@rule("reduction")
def _reduction(op: TracedOp, region: Region) -> Needs:
    """Return a wanted element needs all of the dimensions that are reduced."""
    x, dims = op.inputs[0], op.arguments.get("dim")
    if dims is None or dims == []:
        return {id(op.outputs[0]): op.outputs[0]}
    listed = dims if isinstance(dims, (list, tuple)) else [dims]
    reduced = {d % len(x.shape) for d in listed} if x.shape else set()
    kept = iter(region.box)
    box: list[range | None] = []
    for d in range(len(x.shape)):
        if d in reduced and op.arguments.get("keepdim"):
            next(kept)
        box.append(None if d in reduced else next(kept))
    return {id(x): sliced(x, box, _over(region.mask, reduced, op.arguments.get("keepdim")))}


def _over(mask: Mask | None, reduced: set[int], keepdim: bool | None) -> Mask | None:
    """Return a mask over a reduction's output as one over its input."""
    return mask if mask is None or keepdim else np.expand_dims(mask, tuple(sorted(reduced)))


@rule("diagonal")
def _trace(op: TracedOp, region: Region) -> Needs:
    """Return the diagonal."""
    del region
    x = op.inputs[0]
    return {id(x): sliced(x, whole(x), np.eye(x.shape[0], x.shape[1], dtype=np.bool_))}


_MAX_MASK = 1 << 26  # elements


@rule("nll")
def _nll_loss(op: TracedOp, region: Region) -> Needs:
    """Return one class per target; only of the losses that matter, where each is a result."""
    x, target, output = op.arguments["self"], op.arguments["target"], op.outputs[0]
    axis = 0 if len(x.shape) == 1 else 1
    box: list[range | None] = [None] * len(target.shape)
    losses: Mask | None = None
    if target.shape and output.shape == target.shape:
        box, losses = list(region.box), region.mask
    labels_read = sliced(target, box, losses)
    needs: Needs = {id(target): labels_read, id(output): sliced(output, region.box, losses)}
    lines = None if losses is None else np.expand_dims(losses, axis)
    x = sliced(x, [*box[:axis], None, *box[axis:]], lines)
    first = [range(1) if d == axis else None for d in range(len(x.shape))]
    if labels_read.value is None:
        return {**needs, id(op.arguments["self"]): replace(sliced(x, first), sure=False)}
    labels = labels_read.value.astype(np.int64)
    ignored = labels == op.arguments["ignore_index"]
    if x.numel > _MAX_MASK:  # as many, elsewhere
        some = replace(sliced(x, first, np.expand_dims(~ignored, axis)), sure=False)
        return {**needs, id(op.arguments["self"]): some}
    line = as_axis(np.arange(x.shape[axis]), axis, len(x.shape))
    chosen = np.expand_dims(np.where(ignored, -1, labels), axis) == line
    chosen = chosen.reshape([1] * (len(x.shape) - chosen.ndim) + list(chosen.shape))
    return {**needs, id(op.arguments["self"]): sliced(x, whole(x), chosen)}


@rule("nll backward")
def _nll_loss_backward(op: TracedOp, region: Region) -> Needs:
    """Return the shape of what the loss was of, but none of its values."""
    del region
    x = op.arguments["self"]
    return {id(x): nothing_of(x)}
