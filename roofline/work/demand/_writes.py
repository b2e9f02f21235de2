"""Ops that write part of a tensor: in place, or into a copy of it.

In place, only the elements that an index names are written, and read where the old value matters.
A copy (`index_put`, `scatter`) needs of the original what is not overwritten.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np

from solkit.roofline.work.demand._base import Needs, Wanted, rule
from solkit.roofline.work.demand._geometry import sliced, whole
from solkit.roofline.work.demand._lookups import along, at_indices, at_positions
from solkit.roofline.work.masks import compact
from solkit.roofline.work.program import TensorUse, TracedOp

__all__ = ["Write", "writing_rule_of"]


@dataclass(frozen=True)
class Write:
    """What an in-place op does to its target.

    Attributes:
        writes: the elements that it writes.
        reads: the elements of which it needs the old value; ``None`` where none.
        operands: what it needs of other operands, by the `id` of their uses.
    """

    writes: TensorUse
    reads: TensorUse | None
    operands: Needs = field(default_factory=dict)


_Rule = Callable[[TracedOp], Write]


def writing_rule_of(op: TracedOp) -> _Rule | None:
    """The rule of an in-place op; ``None`` where it reads and writes its target whole."""
    return _RULES.get(op.name)


def _by_row(op: TracedOp) -> TensorUse:
    target, index = op.arguments["self"], op.arguments["index"]
    return along(target, op.arguments["dim"] % max(len(target.shape), 1), index)


def _by_position(op: TracedOp) -> TensorUse:
    target, index = op.arguments["self"], op.arguments["index"]
    return at_positions(target, op.arguments["dim"] % max(len(target.shape), 1), index)


def _source(op: TracedOp) -> Needs:
    """A scatter reads of its source what the shape of the index says."""
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
    """Known masks say what is written; others are taken to write everything."""
    target, mask = op.arguments["self"], op.arguments["mask"]
    if mask.value is None:
        return Write(target, None)
    chosen = compact(mask.value).astype(bool)
    chosen = chosen.reshape((1,) * (len(target.shape) - chosen.ndim) + chosen.shape)
    return Write(sliced(target, whole(target), chosen), None)


_RULES: dict[str, _Rule] = {
    "aten.index_copy_": _put_rows,
    "aten.index_fill_": _put_rows,
    "aten.index_add_": _add_rows,
    "aten.index_reduce_": _add_rows,
    "aten.scatter_": _scatter,
    "aten.scatter_add_": _scatter_add,
    "aten.scatter_reduce_": _scatter_add,
    "aten.index_put_": _index_put,
    "aten._index_put_impl_": _index_put,
    "aten.masked_fill_": _masked_fill,
}


# ------------------------------------------------------------------------- into a copy


@rule("index_copy index_fill scatter index_put _unsafe_index_put index_add scatter_add")
def _into_a_copy(op: TracedOp, wanted: Wanted) -> Needs:
    """Of the original, what is not overwritten."""
    del wanted
    found = _RULES[f"aten.{op.name.removeprefix('aten.').removeprefix('_unsafe_')}_"](op)
    target, output = op.arguments["self"], op.outputs[0]
    needs = {**found.operands, id(output): output}
    if found.reads is not None:
        return needs
    written = found.writes
    if written.sure:
        mask = (
            np.zeros((1,) * len(target.shape), dtype=bool)
            if written.mask is None
            else ~written.mask
        )
        return {**needs, id(target): sliced(target, whole(target), mask)}
    if op.name in ("aten.index_copy", "aten.index_fill"):
        dim = op.arguments["dim"] % len(target.shape)
        box = whole(target)
        box[dim] = range(written.shape[dim], target.shape[dim])
        return {**needs, id(target): replace(sliced(target, box), sure=False)}
    return needs
