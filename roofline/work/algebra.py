"""Ops that algebra makes simpler, whatever finite values the inputs hold.

What is multiplied by 1 in place, or moved by 0, is neither read nor written. The softmax of one
score is 1, so attention to one key copies its value; a norm over a single element is its bias.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from solkit.ops import Normalised
from solkit.roofline.work.constants import known_number
from solkit.roofline.work.fused_attention import as_attention
from solkit.roofline.work.masks import any_along, lifted, reduce_to
from solkit.roofline.work.products import shown_pairs
from solkit.roofline.work.program import Program, TensorUse, TracedOp, uses_of

TERM_FACTORS: Mapping[str, tuple[str, ...]] = {
    "alpha": ("other", "source", "mat1", "mat2", "batch1", "batch2"),
    "value": ("tensor1", "tensor2"),
    "weight": ("end",),
}
"""Terms that each factor scales in a sum."""

_MANY = 1 << 16  # elements of a number for each place: more of them are not looked at


def simplified(program: Program) -> Program:
    """Return the program without what changes nothing, and with copies for what only copies."""
    read = [use.storage for op in program.ops for use in op.inputs]
    needed = {*read, *(use.storage for use in program.results)}
    unchanged = [_without_unchanged(op) for op in program.ops]
    ops = [as_attention(op, needed) for op in unchanged if op is not None]
    return replace(program, ops=tuple(_copying(op, needed) for op in ops))


# ------------------------------------------------------------------------ changes in place


def _without_unchanged(op: TracedOp) -> TracedOp | None:
    """Return the op without the tensors that it leaves as they are; ``None`` if those are all."""
    if not op.written or op.outputs or not _is_in_place(op):
        return op
    targets = op.args[0] if op.args else None
    if not isinstance(targets, list):
        return None if changes_nothing(op) else op
    keep = [not changes_nothing(op, place) for place in range(len(targets))]
    if all(keep):
        return op
    return _of_places(op, keep) if any(keep) else None


def _is_in_place(op: TracedOp) -> bool:
    """Tell whether an op changes its first operand, also where that is given as ``out=``."""
    return bool(op.operator.in_place_of) or op.written == (op.arguments.get("self"),)


def _of_places(op: TracedOp, keep: Sequence[bool]) -> TracedOp:
    """Return an op over lists for some of their places."""

    def chosen(value: Any) -> Any:
        if not isinstance(value, list) or len(value) != len(keep):
            return value
        return [item for item, kept in zip(value, keep) if kept]

    args = tuple(map(chosen, op.args))
    kwargs = {name: chosen(value) for name, value in op.kwargs.items()}
    named = {name: chosen(value) for name, value in op.arguments.items()}
    inputs = {id(use) for use in op.inputs}
    return replace(
        op,
        args=args,
        kwargs=kwargs,
        arguments=named,
        inputs=tuple(use for use in uses_of((args, kwargs)) if id(use) in inputs),
        written=tuple(args[0]),
    )


def changes_nothing(op: TracedOp, place: int = 0) -> bool:
    """Tell whether an op in place adds nothing, or multiplies by 1.

    Args:
        op: the op.
        place: of one tensor, if it is an op over lists.
    """
    record, arguments = op.operator, op.arguments
    if arguments.get("rounding_mode"):
        return False
    names, value = record.neutral or ("", 0.0)
    if any(_number_at(arguments.get(name), place) == value for name in names.split()):
        return True
    if record.adds_terms and _number_at(arguments.get("beta", 1), place) == 1:
        return any(_number_at(arguments.get(factor), place) == 0 for factor in TERM_FACTORS)
    return _keeps_all(op)


def _keeps_all(op: TracedOp) -> bool:
    """Tell whether a known mask, or an index without places, names no element."""
    named = [op.arguments.get(name) for name in op.operator.decides]
    uses = [use for value in named for use in uses_of([value])]
    if not uses or op.operator.writes not in ("masked fill", "put rows", "add rows", "index put"):
        return False
    return any(
        not use.numel or (use.dtype is torch.bool and use.value is not None and not use.value.any())
        for use in uses
    )


def _number_at(value: Any, place: int) -> float | None:
    """Return a number, also of a list at a place, or of a tensor that holds only one number."""
    if isinstance(value, list):
        value = value[place] if place < len(value) else None
    if isinstance(value, TensorUse) and value.value is not None and value.numel > _MANY:
        strides = value.value.strides
        if any(step and n > 1 for step, n in zip(strides, value.shape)):
            return None
    return known_number(value)


# -------------------------------------------------------------------------------- copies


def _copying(op: TracedOp, needed: set[int]) -> TracedOp:
    """Return a copy instead of an op whose first result, the only one needed, copies an operand."""
    if op.operator.needs == "attention":
        if any(use.storage in needed for use in op.outputs[1:]):
            return op
        value = _only_value(op)
        return op if value is None else _copy_of(op, [value])
    if op.operator.normalises is not Normalised.CENTRED or op.written:
        return op
    alone = not any(use.storage in needed for use in op.outputs[1:])
    if not alone or not _ELEMENTS_OF_NORM.get(op.operator.needs, _never)(op):
        return op
    bias = op.arguments.get("bias")
    return _copy_of(op, [bias] if isinstance(bias, TensorUse) else [])


def _copy_of(op: TracedOp, sources: list[TensorUse]) -> TracedOp:
    """Return an op that spreads the only source over the first result; zeros without any."""
    name = "aten.expand_copy" if sources else "aten.zeros"
    inputs = tuple(sources)
    return replace(
        op,
        name=name,
        args=inputs,
        kwargs={},
        inputs=inputs,
        outputs=op.outputs[:1],
        tags=(),
        arguments=dict(zip(["self"], sources)),
    )


def _only_value(op: TracedOp) -> TensorUse | None:
    """Return the values of attention in which each query sees one key; ``None`` of other ones."""
    query, key, value = (op.arguments[name] for name in ("query", "key", "value"))
    mask = op.arguments["attn_mask"]
    if mask is None:
        if op.arguments["is_causal"] and query.shape[-2] == 1:
            first = np.arange(key.shape[-2])[:, None] == 0
            return _with_rows(value, lifted(first, len(value.shape)))
        return value if key.shape[-2] == 1 else None
    if mask.dtype is not torch.bool:
        return value if key.shape[-2] == 1 else None
    shown = shown_pairs(mask)
    if shown is None or shown.shape[-1] != key.shape[-2] or len(shown.shape) > len(value.shape):
        return None
    if not (shown.sum(axis=-1) == 1).all():
        return None
    seen = np.swapaxes(any_along(lifted(shown, len(value.shape)), -2), -1, -2)
    fits = all(n in (1, m) for n, m in zip(seen.shape, (*value.shape[:-1], 1)))
    return _with_rows(value, reduce_to(seen, (*value.shape[:-1], 1))) if fits else None


def _with_rows(value: TensorUse, rows: Any) -> TensorUse:
    return value if rows.all() else replace(value, mask=rows)


def _never(_: TracedOp) -> bool:
    return False


def _is_row_of_one(op: TracedOp) -> bool:
    """Tell whether a layer norm is over single elements."""
    return all(n == 1 for n in op.arguments["normalized_shape"])


def _is_group_of_one(op: TracedOp) -> bool:
    """Tell whether a group norm is over single elements."""
    x: TensorUse = op.arguments["input"]
    return x.numel == x.shape[0] * int(op.arguments["group"])


_ELEMENTS_OF_NORM: dict[str, Callable[[TracedOp], bool]] = {
    "layer norm": _is_row_of_one,
    "batch": _is_group_of_one,
}
"""Tests of a norm over single elements, by `Operator.needs`."""
