"""Ops that a program's results depend on, and how much of each.

Walking backwards from the results, an op whose output is wanted only in part is *narrowed*: its
inputs and outputs are replaced by the slices, and masks over them, that the wanted part needs, so
that all that is counted later (bytes, operations) counts no more. ``(x @ w)[:8]`` costs eight
rows. Ops that by themselves look at only part of an operand (lookups, windows with strides,
triangles) are narrowed as well, and so are the regions that in-place ops write. One file per
family of ops; where a rule is missing the whole op counts.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from solkit.roofline.work.liveness import (  # noqa: F401 (importing a family registers its rules)
    _elementwise,
    _in_place,
    _lookups,
    _products,
    _recurrent,
    _reductions,
    _shapes,
    _windows,
)
from solkit.roofline.work.liveness._base import Region, rule_of
from solkit.roofline.work.liveness._geometry import (
    live_mask,
    live_region,
    nothing_of,
    sliced,
    without,
)
from solkit.roofline.work.liveness._in_place import writing_rule_of
from solkit.roofline.work.masks import both
from solkit.roofline.work.program import Program, TensorUse, TracedOp
from solkit.roofline.work.regions import covers, overlap

__all__ = ["live_ops"]


def live_ops(program: Program) -> list[TracedOp]:
    """Return the ops that the results depend on, in program order, narrowed to what is wanted."""
    live_uses: dict[int, list[TensorUse]] = defaultdict(list)
    for use in program.results:
        live_uses[use.storage].append(use)
    live: list[TracedOp] = []
    for op in reversed(program.ops):
        if not any(_is_live(use, live_uses) for use in op.stored):
            continue
        op = _with_live_gradients(op, live_uses)
        op, overwritten = (
            _narrowed_write(op, live_uses) if op.written else (_narrowed(op, live_uses), ())
        )
        live.append(op)
        for use in overwritten:
            _overwritten(use, live_uses)
        for use in op.inputs:
            if use.distinct and not _is_known(use, live_uses[use.storage]):
                live_uses[use.storage].append(use)
    return live[::-1]


def _with_live_gradients(op: TracedOp, live_uses: Mapping[int, list[TensorUse]]) -> TracedOp:
    """Return a backward op with an `output_mask` of the gradients that anything looks at."""
    requested = op.arguments.get("output_mask", ())
    if not requested or sum(requested) != len(op.outputs):  # there is none of one not asked for
        return op
    outputs = iter(op.outputs)
    mask = [one and next(outputs).storage in live_uses for one in requested]
    return replace(op, arguments={**op.arguments, "output_mask": mask})


_MANY = 16  # readers of a storage; with more of them all of it counts as wanted


def _is_known(use: TensorUse, readers: list[TensorUse]) -> bool:
    """Tell whether one of the last readers sees the same: experts may read the same rows."""
    return use.mask is None and any(
        reader.mask is None and reader == use for reader in readers[-_MANY:]
    )


def _is_live(output: TensorUse, live_uses: dict[int, list[TensorUse]]) -> bool:
    """Tell whether anything later looks at what an op makes or writes."""
    if not output.numel:
        return False
    readers = live_uses.get(output.storage, [])
    if len(readers) > _MANY:
        return True
    return any(overlap(output, reader) for reader in readers)


def _overwritten(written: TensorUse, live_uses: dict[int, list[TensorUse]]) -> None:
    """Drop the earlier uses of what an op overwrites (its own reads are added after)."""
    readers = live_uses.get(written.storage, [])
    if written.sure and len(readers) <= _MANY:
        remaining = [without(use, written) for use in readers if not covers(written, use)]
        live_uses[written.storage] = [use for use in remaining if use.distinct]


def _narrowed(op: TracedOp, live_uses: dict[int, list[TensorUse]]) -> TracedOp:
    """Return the op with what is wanted of its output, and what that needs of its operands."""
    rule = rule_of(op)
    if rule is None:
        return op
    output = op.outputs[0]
    alone = not any(use.storage in live_uses for use in op.outputs[1:])
    part = live_region(output, live_uses[output.storage]) if alone else Region.all_of(output)
    part = Region(part.box, both(part.mask, sliced(output, part.box).mask))
    swaps = rule(op, part)
    if not live_uses[output.storage]:
        swaps |= {id(use): nothing_of(use) for use in _affine(op)}
    swaps.setdefault(id(output), sliced(output, part.box, part.mask))
    if all(id(new) == old for old, new in swaps.items()):
        return op

    def swap(leaf: Any) -> Any:
        return swaps.get(id(leaf), leaf)

    return op.mapped(swap)


def _affine(op: TracedOp) -> list[TensorUse]:
    """Return what a norm applies to its first output alone: only its statistics are live."""
    if not op.operator.affine:
        return []
    named = (op.arguments.get(name) for name in ("weight", "bias"))
    return [use for use in named if isinstance(use, TensorUse)]


def _narrowed_write(
    op: TracedOp, live_uses: dict[int, list[TensorUse]]
) -> tuple[TracedOp, tuple[TensorUse, ...]]:
    """Narrow an in-place op to the elements that it uses; return all that it overwrites too."""
    rule = writing_rule_of(op)
    if rule is None:
        return op, op.written
    target, *others = op.written
    write = rule(op, live_mask(target, live_uses[target.storage]))
    inputs = [write.reads if use is target else use for use in op.inputs]
    narrowed = replace(
        op,
        inputs=tuple(write.operands.get(id(use), use) for use in inputs if use is not None),
        written=(write.writes, *others),
    )
    return narrowed, (write.overwrites, *others)
