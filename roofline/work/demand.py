"""Which ops a program's results depend on, and how much of each.

Walking backwards from the results, an op whose output is wanted only in part is *narrowed*: its
inputs and outputs are replaced by the slices that the wanted part needs, so that all that is
counted later (bytes, operations) counts the slice alone. ``(x @ w)[:8]`` costs eight rows.
Where a rule is missing the whole op counts.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch.utils._pytree import tree_map

from solkit.roofline.work.program import Program, TensorUse, TracedOp

__all__ = ["live_ops"]

Box = list[range]
"""The wanted indices of a tensor, dimension by dimension."""

_Rule = Callable[[TracedOp, Box], dict[int, TensorUse]]
"""The slices that a box of the output needs, by the `id` of the uses they replace."""


def live_ops(program: Program) -> list[TracedOp]:
    """The ops that the results depend on, in program order, narrowed to what is wanted."""
    wanted: dict[int, list[TensorUse]] = defaultdict(list)
    for use in program.results:
        wanted[use.storage].append(use)
    rewritten = {use.storage for op in program.ops for use in op.written}
    live: list[TracedOp] = []
    for op in reversed(program.ops):
        if not any(use.storage in wanted for use in (*op.outputs, *op.written)):
            continue
        if not op.written and op.outputs[0].storage not in rewritten:
            op = _narrowed(op, wanted)
        live.append(op)
        for use in op.inputs:
            wanted[use.storage].append(use)
    return live[::-1]


def _narrowed(op: TracedOp, wanted: dict[int, list[TensorUse]]) -> TracedOp:
    output = op.outputs[0]
    rule = _RULES.get(op.name) or (_aligned if _is_pointwise(op) else None)
    if rule is None or any(use.storage in wanted for use in op.outputs[1:]):
        return op
    box = _bounding_box(output, wanted[output.storage])
    if box is None or all(len(r) == n for r, n in zip(box, output.shape)):
        return op
    slices = rule(op, box)
    slices.setdefault(id(output), _slice(output, box))

    def swap(leaf: Any) -> Any:
        return slices.get(id(leaf), leaf)

    return replace(
        op,
        args=tree_map(swap, op.args),
        kwargs=tree_map(swap, op.kwargs),
        arguments=tree_map(swap, op.arguments),
        inputs=tuple(map(swap, op.inputs)),
        outputs=tuple(map(swap, op.outputs)),
    )


# -------------------------------------------------------------------------------- geometry


def _bounding_box(output: TensorUse, uses: Sequence[TensorUse]) -> Box | None:
    """The smallest box of `output` that holds all `uses`; ``None`` where one is no box of it."""
    boxes = [_box(output, use) for use in uses if use.numel]
    if not boxes:
        return None
    found: Box = []
    for ranges in zip(*(box if box is not None else [] for box in boxes)):
        same = all(r == ranges[0] for r in ranges)
        low, high = min(r.start for r in ranges), max(r[-1] for r in ranges)
        found.append(ranges[0] if same else range(low, high + 1))
    return found if len(found) == len(output.shape) else None


def _box(output: TensorUse, use: TensorUse) -> Box | None:
    """A strided region of a storage as a box of the tensor that the storage was made for."""
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


def _slice(use: TensorUse, box: Sequence[range | None]) -> TensorUse:
    """A use narrowed to a box; ``None`` leaves a dimension whole."""
    ranges = [r if r is not None else range(n) for r, n in zip(box, use.shape)]
    value = use.value
    if value is not None:
        value = value[tuple(slice(r.start, r.stop, r.step) for r in ranges)]
    return replace(
        use,
        shape=tuple(len(r) for r in ranges),
        stride=tuple(step * r.step for step, r in zip(use.stride, ranges)),
        offset=use.offset + sum(r.start * step for r, step in zip(ranges, use.stride)),
        value=value,
    )


def _broadcast(use: TensorUse, box: Box) -> TensorUse:
    """A use narrowed to what a box of the broadcast result needs of it."""
    tail = box[len(box) - len(use.shape) :] if use.shape else []
    return _slice(use, [None if n == 1 else r for n, r in zip(use.shape, tail)])


# ----------------------------------------------------------------------------------- rules

_ALIGNED = {
    f"aten.{name}" for name in "clone copy contiguous _to_copy where masked_fill dropout".split()
}


def _is_pointwise(op: TracedOp) -> bool:
    return torch.Tag.pointwise in op.tags or op.name in _ALIGNED


def _aligned(op: TracedOp, box: Box) -> dict[int, TensorUse]:
    """Each element needs the elements at its own place."""
    fits = all(
        n in (1, m)
        for use in op.inputs
        for n, m in zip(reversed(use.shape), reversed(op.outputs[0].shape))
    )
    if not fits or any(len(use.shape) > len(box) for use in op.inputs):
        return {id(op.outputs[0]): op.outputs[0]}
    return {id(use): _broadcast(use, box) for use in op.inputs}


def _matmul(op: TracedOp, box: Box) -> dict[int, TensorUse]:
    """Rows of the left operand, columns of the right one; a bias is broadcast."""
    *bias, left, right = op.inputs
    *batch, rows, columns = box
    return {
        id(left): _slice(left, [*batch, rows, None]),
        id(right): _slice(right, [*batch, None, columns]),
        **{id(use): _broadcast(use, box) for use in bias},
    }


def _matvec(op: TracedOp, box: Box) -> dict[int, TensorUse]:
    *bias, matrix, _ = op.inputs
    return {
        id(matrix): _slice(matrix, [box[0], None]),
        **{id(use): _broadcast(use, box) for use in bias},
    }


def _along_a_dimension(op: TracedOp, box: Box) -> dict[int, TensorUse]:
    """Softmax, cumsum and their kin: a wanted element needs its whole line."""
    output, dim = op.outputs[0], op.arguments["dim"]
    whole = list(box)
    whole[dim] = range(output.shape[dim])
    return {id(op.inputs[0]): _slice(op.inputs[0], whole), id(output): _slice(output, whole)}


def _layer_norm(op: TracedOp, box: Box) -> dict[int, TensorUse]:
    """A wanted element needs its whole row; the statistics follow the rows."""
    output, x = op.outputs[0], op.arguments["input"]
    kept = len(output.shape) - len(op.arguments["normalized_shape"])
    rows = [*box[:kept], *(range(n) for n in output.shape[kept:])]
    return {
        id(use): _slice(use, [*rows[:kept], *[None] * (len(use.shape) - kept)])
        for use in (x, *op.outputs)
    }


def _reduction(op: TracedOp, box: Box) -> dict[int, TensorUse]:
    """A wanted element needs all of the dimensions that are reduced."""
    x, dims = op.inputs[0], op.arguments.get("dim")
    if dims is None or dims == []:
        return {id(op.outputs[0]): op.outputs[0]}
    listed = dims if isinstance(dims, (list, tuple)) else [dims]
    reduced = {d % len(x.shape) for d in listed}
    kept = iter(box)
    whole: list[range | None] = []
    for d in range(len(x.shape)):
        if d in reduced and op.arguments.get("keepdim"):
            next(kept)
        whole.append(None if d in reduced else next(kept))
    return {id(x): _slice(x, whole)}


def _leading(count: int) -> _Rule:
    """The output's first dimensions are the input's, the others are left whole."""

    def rule(op: TracedOp, box: Box) -> dict[int, TensorUse]:
        uses = (op.inputs[0], op.outputs[0])
        return {id(u): _slice(u, [*box[:count], *[None] * (len(u.shape) - count)]) for u in uses}

    return rule


def _embedding(op: TracedOp, box: Box) -> dict[int, TensorUse]:
    weight, indices = op.arguments["weight"], op.arguments["indices"]
    return {id(weight): _slice(weight, [None, box[-1]]), id(indices): _slice(indices, box[:-1])}


def _attention(op: TracedOp, box: Box) -> dict[int, TensorUse]:
    """Heads and, where no mask ties them to keys, queries; columns of the values."""
    query, key, value = (op.arguments[name] for name in ("query", "key", "value"))
    mask, causal = op.arguments["attn_mask"], op.arguments["is_causal"]
    *heads, rows, columns = box
    if not (query.shape[:-2] == key.shape[:-2] == value.shape[:-2]) or mask is not None:
        return {id(op.outputs[0]): op.outputs[0]}
    wanted = range(query.shape[-2]) if causal else rows
    return {
        id(query): _slice(query, [*heads, wanted, None]),
        id(key): _slice(key, [*heads, None, None]),
        id(value): _slice(value, [*heads, None, columns]),
        id(op.outputs[0]): _slice(op.outputs[0], [*heads, wanted, columns]),
    }


def _cat(op: TracedOp, box: Box) -> dict[int, TensorUse]:
    """Each part gives what of the box falls into it."""
    dim = op.arguments.get("dim", 0) % len(box)
    slices, start = {}, 0
    for use in op.inputs:
        if len(use.shape) != len(box):  # torch.cat skips empty 1-d tensors
            continue
        size = use.shape[dim]
        first, last = (_position(box[dim], edge) for edge in (start, start + size))
        inside = box[dim][first:last]
        part = range(inside.start - start, inside.stop - start, inside.step)
        slices[id(use)] = _slice(use, [*box[:dim], part, *box[dim + 1 :]])
        start += size
    return slices


def _position(indices: range, edge: int) -> int:
    """How many of `indices` lie below `edge`."""
    return min(max(0, -((indices.start - edge) // indices.step)), len(indices))


_RULES: dict[str, _Rule] = {
    **dict.fromkeys(("aten.mm", "aten.bmm", "aten.addmm", "aten.baddbmm"), _matmul),
    **dict.fromkeys(("aten.mv", "aten.addmv"), _matvec),
    **{
        f"aten.{name}": _along_a_dimension
        for name in "_softmax _log_softmax cumsum cumprod logcumsumexp".split()
    },
    **{
        f"aten.{name}": _reduction
        for name in "sum mean amax amin prod logsumexp argmax argmin".split()
    },
    **{
        f"aten.{name}": _leading(2)
        for name in "avg_pool2d avg_pool3d _adaptive_avg_pool2d _adaptive_avg_pool3d".split()
    },
    "aten.native_layer_norm": _layer_norm,
    "aten.embedding": _embedding,
    "aten.cat": _cat,
    "solkit.attention": _attention,
}
