"""Ops that write part of a tensor: in place, or into a copy of it.

In place, only the elements that an index names are written, and read where the old value matters.
A copy (`index_put`, `scatter`) needs of the original what is not overwritten.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np
import torch

from solkit.roofline.work.liveness._base import Needs, Region, rule
from solkit.roofline.work.liveness._geometry import broadcast, sliced, whole
from solkit.roofline.work.liveness._lookups import along, at_indices, at_positions
from solkit.roofline.work.masks import compact
from solkit.roofline.work.program import Mask, TensorUse, TracedOp


@dataclass(frozen=True)
class Write:
    """Effects of an in-place op on its target.

    Attributes:
        overwrites: the elements that it writes.
        reads: the elements whose old value it needs; ``None`` if none.
        operands: what it needs of other operands, by the `id` of their uses.
        live: which elements of the target matter later; ``None`` if all do.
    """

    overwrites: TensorUse
    reads: TensorUse | None
    operands: Needs = field(default_factory=dict)
    live: Mask | None = None

    @property
    def writes(self) -> TensorUse:
        """The elements that it has to write."""
        return _masked(self.overwrites, self.live)


def _masked(use: TensorUse, mask: Mask | None) -> TensorUse:
    return use if mask is None else sliced(use, whole(use), mask)


_Rule = Callable[[TracedOp], Write]


def writing_rule_of(op: TracedOp) -> Callable[[TracedOp, Mask | None], Write] | None:
    """Return the rule of an in-place op; ``None`` if it reads and writes its target whole.

    Besides the op it takes which elements of the target matter later.
    """
    writes = op.operator.writes if op.operator.in_place_of else ""  # not of what has an ``out=``
    if torch.Tag.pointwise in op.tags or writes == "in place":
        return _in_place
    return (lambda op, live: _applied(_RULES[writes](op), live)) if writes else None


def _applied(write: Write, live: Mask | None) -> Write:
    """Return the wanted part narrows a write of the target's shape."""
    if not write.overwrites.sure or live is None:
        return write
    reads = write.reads if write.reads is None else _masked(write.reads, live)
    return replace(write, reads=reads, live=live)


def _in_place(op: TracedOp, live: Mask | None) -> Write:
    """Let elements depend on their old value, if at all, and on operands in the same place."""
    target = op.written[0]
    reads = _masked(target, live) if any(use is target for use in op.inputs) else None
    part = Region(whole(target), live)
    operands = [use for use in op.inputs if use is not target and _fits(use, target)]
    return Write(target, reads, {id(use): broadcast(use, part) for use in operands}, live)


def _fits(use: TensorUse, target: TensorUse) -> bool:
    """Tell whether an operand broadcasts to the target."""
    tail = zip(reversed(use.shape), reversed(target.shape))
    return len(use.shape) <= len(target.shape) and all(n in (1, m) for n, m in tail)


def _by_row(op: TracedOp) -> TensorUse:
    target, index = op.arguments["self"], op.arguments["index"]
    return along(target, op.arguments["dim"] % max(len(target.shape), 1), index)


def _by_position(op: TracedOp) -> TensorUse:
    target, index = op.arguments["self"], op.arguments["index"]
    return at_positions(target, op.arguments["dim"] % max(len(target.shape), 1), index)


def _source(op: TracedOp) -> Needs:
    """Return a scatter reads as much of its source as the index has places."""
    source, index = op.arguments.get("src"), op.arguments["index"]
    if not isinstance(source, TensorUse):
        return {}
    return {id(source): sliced(source, [range(n) for n in index.shape])}


def _put_rows(op: TracedOp) -> Write:
    return Write(_by_row(op), None)


def _add_rows(op: TracedOp) -> Write:
    rows = _by_row(op)
    return Write(rows, rows)


def _scatter(op: TracedOp) -> Write:
    return Write(_by_position(op), None, _source(op))


def _scatter_add(op: TracedOp) -> Write:
    places = _by_position(op)
    return Write(places, places, _source(op))


def _index_put(op: TracedOp) -> Write:
    places = at_indices(op.arguments["self"], op.arguments["indices"])
    return Write(places, places if op.arguments.get("accumulate") else None)


def _masked_fill(op: TracedOp) -> Write:
    """Known masks decide what is written; unknown masks are assumed to write everything."""
    target, mask = op.arguments["self"], op.arguments["mask"]
    if mask.value is None:
        return Write(target, None)
    chosen = compact(mask.value).astype(bool)
    chosen = chosen.reshape((1,) * (len(target.shape) - chosen.ndim) + chosen.shape)
    return Write(sliced(target, whole(target), chosen), None)


_RULES: dict[str, _Rule] = {
    "put rows": _put_rows,
    "add rows": _add_rows,
    "scatter": _scatter,
    "scatter add": _scatter_add,
    "index put": _index_put,
    "masked fill": _masked_fill,
}
"""Effects of in-place ops, by `Operator.writes`."""


# ------------------------------------------------------------------------- into a copy


@rule("into a copy")
def _into_a_copy(op: TracedOp, region: Region) -> Needs:
    """Return the part of the original that is not overwritten."""
    del region
    write = _RULES[op.operator.writes](op)
    target, output = op.arguments["self"], op.outputs[0]
    needs = {**write.operands, id(output): output}
    if write.reads is not None:
        return needs
    written = write.overwrites
    if written.sure:
        mask = (
            np.zeros((1,) * len(target.shape), dtype=bool)
            if written.mask is None
            else ~written.mask
        )
        return {**needs, id(target): sliced(target, whole(target), mask)}
    if op.operator.writes == "put rows":
        dim = op.arguments["dim"] % len(target.shape)
        box = whole(target)
        box[dim] = range(written.shape[dim], target.shape[dim])
        return {**needs, id(target): replace(sliced(target, box), sure=False)}
    return needs
