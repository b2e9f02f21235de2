"""Matrix products and attention: rows of one operand, columns of the other."""

from __future__ import annotations

import numpy as np

from solkit.roofline.work.liveness._base import Needs, Region, rule
from solkit.roofline.work.liveness._geometry import broadcast, nothing_of, sliced, whole
from solkit.roofline.work.masks import any_along, both, everything, lifted, reduce_to
from solkit.roofline.work.products import product_mask, shown_pairs
from solkit.roofline.work.program import Mask, TensorUse, TracedOp


@rule("product")
def _matmul(op: TracedOp, region: Region) -> Needs:
    """Return rows of the left operand, columns of the right one; an added term is broadcast.

    A term with the factor 0 is skipped.
    """
    lhs, rhs = op.inputs[-2:]
    if op.arguments.get("alpha", 1) == 0:
        return {**{id(use): nothing_of(use) for use in (lhs, rhs)}, **_added(op, region)}
    *batch, rows, columns = region.box
    x, y = sliced(lhs, [*batch, rows, None]), sliced(rhs, [*batch, None, columns])
    return {
        id(lhs): _factor(x, region.mask, _transposed(y.mask)),
        id(rhs): _factor(y, _transposed(x.mask), region.mask),
        **_added(op, region),
    }


def _added(op: TracedOp, region: Region) -> Needs:
    """Narrow a product's added term."""
    unused = op.arguments.get("beta", 1) == 0
    return {
        id(use): nothing_of(use) if unused else broadcast(use, region) for use in op.inputs[-3:-2]
    }


def _factor(use: TensorUse, rows: Mask | None, columns: Mask | None) -> TensorUse:
    """Return a factor without the elements that meet only zeros.

    An element [i, j] is multiplied where some n has rows[i, n] and columns[n, j]: for the left
    factor that is the wanted output and the right factor's transpose, for the right one the left
    factor's transpose and the wanted output.

    Args:
        use: the factor.
        rows: a mask; ``None`` where nothing is left out.
        columns: likewise.
    """
    if rows is None and columns is None:
        return use
    ndim = len(use.shape)
    first = everything(ndim) if rows is None else rows
    other = everything(ndim) if columns is None else columns
    inner = max(first.shape[-1], other.shape[-2])
    shapes = (*use.shape[:-1], inner), (*use.shape[:-2], inner, use.shape[-1])
    met = product_mask(first, other, *shapes)
    if met is None:  # too large to multiply out: what either mask leaves
        met = any_along(first, -1) & any_along(other, -2)
    return sliced(use, whole(use), both(met))


def _transposed(mask: Mask | None) -> Mask | None:
    return None if mask is None else np.swapaxes(mask, -1, -2)


@rule("matvec")
def _matvec(op: TracedOp, region: Region) -> Needs:
    """Return rows of the matrix; columns where the vector is not zero."""
    *added, matrix, vector = op.inputs
    part = sliced(matrix, [region.box[0], None])
    if vector.mask is not None:
        part = sliced(part, whole(part), lifted(vector.mask, 2))
    used = (
        vector
        if part.mask is None
        else sliced(vector, whole(vector), np.asarray(part.mask.any(axis=0)))
    )
    return {
        id(matrix): part,
        id(vector): used,
        **{id(use): broadcast(use, region) for use in added},
    }


@rule("triangular solve")
def _solve_triangular(op: TracedOp, region: Region) -> Needs:
    """Return one triangle of the matrix."""
    del region
    matrix = op.arguments["self"]
    if not op.arguments.get("left", True):
        return {}
    return {id(matrix): _triangle(matrix, op.arguments["upper"])}


@rule("cholesky")
def _cholesky(op: TracedOp, region: Region) -> Needs:
    """Return one triangle of a symmetric matrix."""
    del region
    matrix = op.inputs[0]
    upper = op.arguments.get("upper", op.arguments.get("UPLO") in ("U", "u"))
    return {id(matrix): _triangle(matrix, upper)}


def _triangle(matrix: TensorUse, upper: bool) -> TensorUse:
    cut = np.triu if upper else np.tril
    mask = cut(np.ones(matrix.shape[-2:], dtype=bool))
    return sliced(matrix, whole(matrix), mask.reshape((1,) * (len(matrix.shape) - 2) + mask.shape))


@rule("attention")
def _attention(op: TracedOp, region: Region) -> Needs:
    """Heads; queries, unless a mask ties them to keys; columns of the values.

    Keys that a known mask hides from every query are not read.
    """
    query, key, value = (op.arguments[name] for name in ("query", "key", "value"))
    mask, causal = op.arguments["attn_mask"], op.arguments["is_causal"]
    if mask is not None:
        return {id(op.outputs[0]): op.outputs[0], **_seen(key, value, mask)}
    if not query.shape[:-2] == key.shape[:-2] == value.shape[:-2]:
        return {id(op.outputs[0]): op.outputs[0]}
    *heads, rows, columns = region.box
    queries = range(query.shape[-2]) if causal else rows
    seen = range(min(key.shape[-2], query.shape[-2])) if causal else None
    return {
        id(query): sliced(query, [*heads, queries, None]),
        id(key): sliced(key, [*heads, seen, None]),
        id(value): sliced(value, [*heads, seen, columns]),
        id(op.outputs[0]): sliced(op.outputs[0], [*heads, queries, columns]),
    }


def _seen(key: TensorUse, value: TensorUse, mask: TensorUse) -> Needs:
    """Return the keys and values that a mask shows to any query."""
    shown = shown_pairs(mask)
    if shown is None:
        return {}
    shown = shown.reshape((1,) * max(0, len(key.shape) - shown.ndim) + shown.shape)
    any_query = np.swapaxes(any_along(shown, -2), -1, -2)
    return {
        id(use): sliced(use, whole(use), both(reduce_to(any_query, (*use.shape[:-1], 1))))
        for use in (key, value)
        if all(n in (1, m) for n, m in zip(any_query.shape, (*use.shape[:-1], 1)))
    }
