"""Fused attention kernels of torch, each with arguments of its own, in the form of one op.

Flash, memory-efficient and cuDNN attention compute what `scaled_dot_product_attention` does. Where
sequences are packed behind one another, `pairs_of_sequences` counts what each of them needs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from solkit.roofline.work.program import TensorUse, TracedOp

_MOST_PAIRS = 1 << 28  # of a band that is made as a mask
_LENGTHS_Q = ("cum_seq_q", "cu_seqlens_q", "cu_seq_q")
_LENGTHS_K = ("cum_seq_k", "cu_seqlens_k", "cu_seq_k")


def as_attention(op: TracedOp, needed: set[int]) -> TracedOp:
    """Return a fused attention op as ``solkit.attention``, or its gradient; other ops as they are.

    Args:
        op: any op.
        needed: storages that something reads.
    """
    layout = op.operator.attends
    if not layout:
        return op
    outputs = tuple(use for use in op.outputs[:3] if use.storage in needed) or op.outputs[:1]
    if is_packed(op) or op.written:
        return replace(op, outputs=outputs)
    named = {name: op.arguments[name] for name in ("query", "key", "value")}
    grad_out = op.arguments.get("grad_out", op.arguments.get("grad_out_"))
    rows_first = layout == "rows first"
    if rows_first:
        named = {name: _heads_first(use) for name, use in named.items()}
        outputs = tuple(_heads_first(use) if len(use.shape) == 4 else use for use in outputs)
    mask, is_causal, is_known = _shown(op, named["query"], named["key"])
    arguments: dict[str, Any] = {**named, "attn_mask": mask, "is_causal": is_causal}
    inputs = list(named.values())
    if mask is not None and not is_known:
        inputs.append(mask)
    if grad_out is None:
        return _renamed(op, "solkit.attention", arguments, inputs, outputs)
    gradient = _heads_first(grad_out) if rows_first else grad_out
    arguments |= {"grad_out": gradient, "mask_wanted": False}
    return _renamed(op, "solkit.attention_backward", arguments, [gradient, *inputs], outputs)


def _renamed(
    op: TracedOp,
    name: str,
    arguments: dict[str, Any],
    inputs: Sequence[TensorUse],
    outputs: tuple[TensorUse, ...],
) -> TracedOp:
    return replace(
        op,
        name=name,
        args=(),
        kwargs=arguments,
        arguments=arguments,
        inputs=tuple(inputs),
        outputs=outputs,
        tags=(),
    )


def _heads_first(use: TensorUse) -> TensorUse:
    """Return a view of [batch, rows, heads, width] as [batch, heads, rows, width]."""
    order = (0, 2, 1, 3)
    shape, stride = (tuple(sizes[d] for d in order) for sizes in (use.shape, use.stride))
    return replace(use, shape=shape, stride=stride, value=None)


def _shown(op: TracedOp, query: TensorUse, key: TensorUse) -> tuple[TensorUse | None, bool, bool]:
    """Return an op's mask; whether it is causal instead; and whether the mask is no tensor."""
    for name in ("attn_bias", "attn_mask", "bias"):
        if isinstance(op.arguments.get(name), TensorUse):
            return op.arguments[name], False, False
    rows, columns = query.shape[-2], key.shape[-2]
    behind, right, shift = _band(op)
    if behind is None and right is None:
        return None, False, False
    if behind is None and right == 0 and (shift == 0 or rows == columns):
        return None, True, False
    if rows * columns > _MOST_PAIRS:
        return None, right == 0, False  # no more pairs are seen than that
    keys, own = np.arange(columns), np.arange(rows)[:, None] + shift * (columns - rows)
    shown = np.ones((rows, columns), dtype=bool)
    shown &= True if right is None else keys <= own + right
    shown &= True if behind is None else keys >= own - behind
    mask = TensorUse(-1, shown.shape, (columns, 1), 0, torch.bool, value=shown)
    return mask, False, True


def _band(op: TracedOp) -> tuple[int | None, int | None, int]:
    """Return how far a query sees to the left and to the right, and 1 if the last ones are aligned.

    Flash attention aligns the last query to the last key; memory-efficient attention says which.
    """
    arguments = op.arguments
    window = arguments.get("window_size")
    pair = list(window) if isinstance(window, (list, tuple)) else [None, None]
    sides = [
        arguments.get(name) if arguments.get(name) is not None else own
        for name, own in zip(("window_size_left", "window_size_right"), pair)
    ]
    behind, right = (side if side is not None and side >= 0 else None for side in sides)
    if isinstance(window, int):
        behind = window - 1
    kind = arguments.get("custom_mask_type", 0)
    if arguments.get("is_causal") or kind:
        right = 0
    return behind, right, int(kind != 1)


# ---------------------------------------------------------------------------- packed sequences


def _lengths(op: TracedOp, names: Sequence[str]) -> TensorUse | None:
    uses = [op.arguments.get(name) for name in names]
    return next((use for use in uses if isinstance(use, TensorUse)), None)


def is_packed(op: TracedOp) -> bool:
    """Tell whether sequences of several lengths lie behind one another."""
    return _lengths(op, _LENGTHS_Q) is not None and len(op.arguments["query"].shape) == 3


def has_unknown_lengths(op: TracedOp) -> bool:
    """Tell whether the lengths of packed sequences are data."""
    if not op.operator.attends or not is_packed(op):
        return False
    return any(
        use is not None and use.value is None
        for use in (_lengths(op, _LENGTHS_Q), _lengths(op, _LENGTHS_K))
    )


def pairs_of_sequences(op: TracedOp) -> int:
    """Count the pairs of query and key that packed sequences have, for one head.

    Unknown lengths are taken to be equal: no others need as few pairs.
    """
    queries = _counts(_lengths(op, _LENGTHS_Q), op.arguments["query"].shape[0])
    own = _lengths(op, _LENGTHS_K)
    keys = _counts(own, op.arguments["key"].shape[0]) if own is not None else queries
    used = op.arguments.get("seqused_k")
    if isinstance(used, TensorUse) and used.value is not None:
        keys = [int(n) for n in used.value.ravel()]
    behind, right, shift = _band(op)
    return sum(_pairs(m, n, behind, right, shift) for m, n in zip(queries, keys))


def _counts(offsets: TensorUse | None, total: int) -> list[int]:
    if offsets is None:
        return [total]
    if offsets.value is not None:
        return [int(n) for n in np.diff(offsets.value.ravel().astype(np.int64))]
    sequences = max(offsets.numel - 1, 1)
    return [total // sequences] * sequences


def _pairs(rows: int, columns: int, behind: int | None, right: int | None, shift: int) -> int:
    """Count the pairs of one sequence within a band."""
    if rows <= 0 or columns <= 0:
        return 0
    places = np.arange(rows) + shift * (columns - rows)
    last = np.full(rows, columns - 1) if right is None else np.minimum(places + right, columns - 1)
    first = np.zeros(rows, dtype=np.int64) if behind is None else np.maximum(places - behind, 0)
    return int(np.maximum(last - first + 1, 0).sum())
