"""Elementwise ops: a result needs the operands' elements in the same place."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from solkit.roofline.work.liveness._base import Needs, Region, rule
from solkit.roofline.work.liveness._geometry import broadcast, sliced, whole
from solkit.roofline.work.masks import as_axis, both, compact, everything, reduce_to
from solkit.roofline.work.program import Mask, TensorUse, TracedOp


@rule("aligned")
def _aligned(op: TracedOp, region: Region) -> Needs:
    """Narrow operands to the elements in the same place."""
    if not _fits(op, region):
        return {id(op.outputs[0]): op.outputs[0]}
    return {id(use): broadcast(use, region) for use in op.inputs}


@rule("reshaped")
def _reshaped(op: TracedOp, region: Region) -> Needs:
    """Return the same, where the shape stays."""
    if op.inputs[0].shape != op.outputs[0].shape:
        return {id(op.outputs[0]): op.outputs[0]}
    return _aligned(op, region)


def _fits(op: TracedOp, region: Region) -> bool:
    """Tell whether every operand broadcasts to the result."""
    return all(
        len(use.shape) <= len(region.box)
        and all(n in (1, m) for n, m in zip(reversed(use.shape), reversed(op.outputs[0].shape)))
        for use in op.inputs
    )


@rule("where")
def _where(op: TracedOp, region: Region) -> Needs:
    """Narrow each branch to where it is chosen; to half of it if the choice is unknown.

    Every other element stands for that half.
    """
    condition: TensorUse = op.arguments["condition"]
    needs = _aligned(op, region)
    if not _fits(op, region):
        return needs
    is_known = condition.value is not None
    if condition.value is not None:
        chosen = compact(condition.value).astype(bool)
    elif not condition.sure:  # so many are chosen, though it is not known which
        chosen = everything(len(condition.shape)) if condition.mask is None else condition.mask
    else:
        chosen = _every_other(op.outputs[0])
    branches = _chosen(op, region, {"self": chosen, "other": ~chosen})
    return needs | {at: replace(use, sure=use.sure and is_known) for at, use in branches.items()}


def _every_other(use: TensorUse) -> Mask:
    """Return every other element along the last dimension with more than one."""
    axis = max((d for d, n in enumerate(use.shape) if n > 1), default=None)
    if axis is None:
        return everything(len(use.shape))
    line = np.arange(use.shape[axis]) % 2 == 0
    return as_axis(line, axis, len(use.shape))


@rule("masked fill")
def _masked_fill(op: TracedOp, region: Region) -> Needs:
    """Drop the filled elements: they are not needed."""
    needs = _aligned(op, region)
    mask: TensorUse = op.arguments["mask"]
    if mask.value is not None and _fits(op, region):
        needs |= _chosen(op, region, {"self": ~compact(mask.value).astype(bool)})
    return needs


def _chosen(op: TracedOp, region: Region, kept: dict[str, Mask]) -> Needs:
    """Narrow operands of which only some elements are chosen to what the region needs."""
    needs: Needs = {}
    for name, mask in kept.items():
        use = op.arguments[name]
        if not isinstance(use, TensorUse):
            continue
        whole_mask = mask.reshape((1,) * (len(region.box) - mask.ndim) + mask.shape)
        part = both(sliced(_as_result(op, whole_mask), region.box).mask, region.mask)
        narrowed = broadcast(use, region)
        needed = None if part is None else reduce_to(part, narrowed.shape)
        needs[id(use)] = sliced(narrowed, whole(narrowed), needed)
    return needs


def _as_result(op: TracedOp, mask: Mask) -> TensorUse:
    """Return the result's use with a mask over it."""
    result = op.outputs[0]
    return TensorUse(
        result.storage, result.shape, result.stride, result.offset, result.dtype, mask=mask
    )
