"""Elementwise ops: a result needs the operands' elements in the same place."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from solkit.roofline.work.liveness._base import Needs, Wanted, rule
from solkit.roofline.work.liveness._geometry import broadcast, sliced, whole
from solkit.roofline.work.masks import as_axis, both, compact, everything, reduce_to
from solkit.roofline.work.program import Mask, TensorUse, TracedOp


@rule("aligned")
def _aligned(op: TracedOp, wanted: Wanted) -> Needs:
    """Each element needs the elements in the same place."""
    if not _fits(op, wanted):
        return {id(op.outputs[0]): op.outputs[0]}
    return {id(use): broadcast(use, wanted) for use in op.inputs}


@rule("reshaped")
def _reshaped(op: TracedOp, wanted: Wanted) -> Needs:
    """The same, where the shape stays."""
    if op.inputs[0].shape != op.outputs[0].shape:
        return {id(op.outputs[0]): op.outputs[0]}
    return _aligned(op, wanted)


def _fits(op: TracedOp, wanted: Wanted) -> bool:
    """Whether every operand broadcasts to the result."""
    return all(
        len(use.shape) <= len(wanted.box)
        and all(n in (1, m) for n, m in zip(reversed(use.shape), reversed(op.outputs[0].shape)))
        for use in op.inputs
    )


@rule("where")
def _where(op: TracedOp, wanted: Wanted) -> Needs:
    """Each branch is needed where it is chosen. If the choice is unknown, half of it is needed.

    Every other element stands for that half.
    """
    condition: TensorUse = op.arguments["condition"]
    needs = _aligned(op, wanted)
    if not _fits(op, wanted):
        return needs
    known = condition.value is not None
    chosen = (
        compact(condition.value).astype(bool)
        if condition.value is not None
        else _every_other(op.outputs[0])
    )
    branches = _chosen(op, wanted, {"self": chosen, "other": ~chosen})
    return needs | {at: replace(use, sure=use.sure and known) for at, use in branches.items()}


def _every_other(use: TensorUse) -> Mask:
    """Every other element along the last dimension with more than one."""
    axis = max((d for d, n in enumerate(use.shape) if n > 1), default=None)
    if axis is None:
        return everything(len(use.shape))
    line = np.arange(use.shape[axis]) % 2 == 0
    return as_axis(line, axis, len(use.shape))


@rule("masked fill")
def _masked_fill(op: TracedOp, wanted: Wanted) -> Needs:
    """Filled elements are not needed."""
    needs = _aligned(op, wanted)
    mask: TensorUse = op.arguments["mask"]
    if mask.value is not None and _fits(op, wanted):
        needs |= _chosen(op, wanted, {"self": ~compact(mask.value).astype(bool)})
    return needs


def _chosen(op: TracedOp, wanted: Wanted, kept: dict[str, Mask]) -> Needs:
    """What the wanted part needs of operands if only some of their elements are chosen."""
    found: Needs = {}
    for name, mask in kept.items():
        use = op.arguments[name]
        if not isinstance(use, TensorUse):
            continue
        whole_mask = mask.reshape((1,) * (len(wanted.box) - mask.ndim) + mask.shape)
        part = both(sliced(_as_result(op, whole_mask), wanted.box).mask, wanted.mask)
        narrowed = broadcast(use, wanted)
        needed = None if part is None else reduce_to(part, narrowed.shape)
        found[id(use)] = sliced(narrowed, whole(narrowed), needed)
    return found


def _as_result(op: TracedOp, mask: Mask) -> TensorUse:
    """The result's use with a mask over it."""
    result = op.outputs[0]
    return TensorUse(
        result.storage, result.shape, result.stride, result.offset, result.dtype, mask=mask
    )
