"""Multiply-adds of a matrix product if only some elements matter.

An element of the result needs one multiply-add for each k where both factors may be other than 0:
the sum over m, k, n of L[m, k] R[k, n] W[m, n], with masks L and R of the factors' nonzero
elements and W of the wanted ones. Two masks share one index, so that sum factorises; with all
three it is summed out where that is cheap, else bounded by the least of the three pairs.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations

import numpy as np
import numpy.typing as npt

from solkit.roofline.work.masks import compact
from solkit.roofline.work.program import Mask, TensorUse

_MAX_EXACT = 1 << 31  # multiply-adds of the product of masks: a tenth of a second
_MAX_MASK = 1 << 26  # elements of a mask
_MAX_TRIANGLE = 1 << 28  # elements of the mask of a triangle


def count(values: npt.NDArray[np.generic], shape: Sequence[int]) -> int:
    """Count elements of a mask, or sum an array, that broadcasts to `shape`."""
    repeats = math.prod(n for n, size in zip(shape, values.shape) if size == 1)
    counted = np.count_nonzero(values) if values.dtype == bool else values.sum()
    return int(counted) * repeats


def multiply_adds(
    lhs: TensorUse, rhs: TensorUse, out: TensorUse, is_symmetric: bool = False
) -> int:
    """Multiply-adds of [*, M, K] x [*, K, N]; equal rows, columns or batch elements count once.

    Args:
        lhs: the left factor.
        rhs: the right factor.
        out: the product.
        is_symmetric: whether the whole product is known to equal its own transpose.
    """
    is_symmetric = is_symmetric and out.shape[-2:] == (rhs.shape[-1],) * 2
    lhs, rhs, out = _as_matrices(lhs, rhs, out)
    lhs_groups, rhs_groups = _groups(lhs), _groups(rhs)
    batch = tuple(
        _different(n, (lhs_n, a, p), (rhs_n, b, q))
        for n, lhs_n, rhs_n, a, b, p, q in zip(
            *(out.shape[:-2], lhs.shape, rhs.shape, lhs_groups, rhs_groups),
            *(_periods(lhs), _periods(rhs)),
        )
    )
    m, k = lhs.shape[-2:]
    n = rhs.shape[-1]
    sizes = {"m": m, "k": k, "n": n}
    patterns = {
        axes: mask[tuple(slice(0, 1) if b == 1 else slice(None) for b in batch)]
        for axes, mask in (("mk", lhs.mask), ("kn", rhs.mask), ("mn", out.mask))
        if mask is not None
    }
    is_symmetric = is_symmetric or is_gram(lhs, rhs)
    if not patterns:
        rows = _different(m, (m, lhs_groups[-2], _periods(lhs)[-2]))
        columns = _different(n, (n, rhs_groups[-1], _periods(rhs)[-1]))
        if not is_symmetric:
            return math.prod(batch) * rows * k * columns
        lines = min(rows, columns)
        return math.prod(batch) * (lines * (lines + 1) // 2) * k
    if is_symmetric and m * n <= _MAX_TRIANGLE:
        patterns["mn"] = _one_triangle(patterns.get("mn"), m)
    if len(patterns) == 1:
        ((axes, mask),) = patterns.items()
        third = next(size for axis, size in sizes.items() if axis not in axes)
        return count(mask, (*batch, *(sizes[a] for a in axes))) * third
    if len(patterns) == 3 and (is_symmetric or math.prod(batch) * m * k * n <= _MAX_EXACT):
        pairs = _pairs(patterns["mk"], patterns["kn"], (*batch, m, k, n))
        if pairs is not None:
            return int(count(pairs * patterns["mn"], (*batch, m, n)))
    return min(
        _two(a, patterns[a], b, patterns[b], batch, sizes) for a, b in combinations(patterns, 2)
    )


def _groups(use: TensorUse) -> tuple[float, ...]:
    """Return the neighbours along each dimension that are the same, at the least."""
    return use.groups or tuple(math.inf if step == 0 else 1.0 for step in use.stride)


def _periods(use: TensorUse) -> tuple[float, ...]:
    """Return the elements along each dimension after which they begin again."""
    return use.periods or (math.inf,) * len(use.shape)


_Axis = tuple[int, float, float]
"""Size, group and period of a factor along a dimension (see `solkit.roofline.work.broadcast`)."""


def _different(n: int, *factors: _Axis) -> int:
    """Count the different elements, or pairs of elements, along a dimension of n."""
    moving = [(group, period) for size, group, period in factors if size != 1]
    moving = [(group, period) for group, period in moving if math.isfinite(group)]
    if moving and all(math.isfinite(period) for _, period in moving):
        n = min(n, math.lcm(*(int(period) for _, period in moving)))
    sizes = [int(group) for group, _ in moving]
    counts = [n if size == 1 else math.ceil(n / size) for size in sizes]  # sizes may be symbols
    if len(sizes) < 2:
        return (*counts, 1)[0]
    if 1 in sizes:
        return n
    return sum(counts) - math.ceil(n / math.lcm(*sizes))


def is_gram(lhs: TensorUse, rhs: TensorUse) -> bool:
    """Tell whether a matrix meets its own transpose: one triangle of the result is the other."""
    if len(lhs.shape) < 2 or len(lhs.shape) != len(rhs.shape):
        return False
    shape, stride = ((*sizes[:-2], sizes[-1], sizes[-2]) for sizes in (rhs.shape, rhs.stride))
    return lhs == replace(rhs, shape=shape, stride=stride)


def _as_matrices(
    lhs: TensorUse, rhs: TensorUse, out: TensorUse
) -> tuple[TensorUse, TensorUse, TensorUse]:
    """Vectors as matrices of one row or one column."""
    if len(lhs.shape) == 1:
        lhs, out = _with_axis(lhs, 0), _with_axis(out, 0)
    if len(rhs.shape) == 1:
        rhs, out = _with_axis(rhs, 1), _with_axis(out, len(out.shape))
    return lhs, rhs, out


def _with_axis(use: TensorUse, axis: int) -> TensorUse:
    shape, stride = list(use.shape), list(use.stride)
    shape.insert(axis, 1)
    stride.insert(axis, 1)
    mask = None if use.mask is None else np.expand_dims(use.mask, axis)
    groups, periods = (
        sizes and (*sizes[:axis], math.inf, *sizes[axis:]) for sizes in (use.groups, use.periods)
    )
    return replace(
        use, shape=tuple(shape), stride=tuple(stride), mask=mask, groups=groups, periods=periods
    )


def _two(a: str, x: Mask, b: str, y: Mask, batch: Sequence[int], sizes: dict[str, int]) -> int:
    """Return the sum with two masks: along the index that they share, line by line."""
    (shared,) = set(a) & set(b)
    lines = _line_counts(a, x, shared, sizes) * _line_counts(b, y, shared, sizes)
    return int(count(lines, (*batch, sizes[shared])))


def _line_counts(
    axes: str, mask: Mask, shared: str, sizes: dict[str, int]
) -> npt.NDArray[np.int64]:
    own = next(axis for axis in axes if axis != shared)
    position = axes.index(own) - 2
    repeats = sizes[own] if mask.shape[position] == 1 else 1
    return np.asarray(mask.sum(axis=position, dtype=np.int64) * repeats)


def _one_triangle(needed: Mask | None, size: int) -> Mask:
    """Return one element of each pair of equal ones of a symmetric matrix, if either is needed."""
    lower: Mask = np.tri(size, dtype=bool)
    return lower if needed is None else lower & (needed | np.swapaxes(needed, -1, -2))


def _pairs(lhs: Mask, rhs: Mask, sizes: Sequence[int]) -> npt.NDArray[np.int32] | None:
    """Count the pairs of factors that each element of the product sums; broadcasts to its shape.

    Args:
        lhs: the nonzero elements of [*, M, K].
        rhs: those of [*, K, N].
        sizes: batch, M, K and N.

    Returns:
        ``None`` if counting takes too long.
    """
    m, k, n = sizes[-3:]
    if lhs.shape[-1] == rhs.shape[-2] == 1:
        return np.int32(k) * np.asarray(lhs & rhs, dtype=np.int32)
    lhs = np.broadcast_to(lhs, (*lhs.shape[:-1], k))
    rhs = np.broadcast_to(rhs, (*rhs.shape[:-2], k, rhs.shape[-1]))
    batch = max(math.prod(lhs.shape[:-2]), math.prod(rhs.shape[:-2]))
    if batch * m * k * n <= _MAX_EXACT:
        # in float32, whole numbers are exact up to 2^24, and BLAS computes it
        return np.rint(lhs.astype(np.float32) @ rhs.astype(np.float32)).astype(np.int32)
    rows, columns = _runs(lhs), _runs(np.swapaxes(rhs, -1, -2))
    if rows is None or columns is None or batch * m * n > _MAX_MASK:
        return None
    starts, ends = (np.asarray(a)[..., None] for a in rows)
    others = tuple(np.asarray(b)[..., None, :] for b in columns)
    overlap = np.minimum(ends, others[1])
    overlap -= np.maximum(starts, others[0])
    return np.asarray(np.maximum(overlap, 0, out=overlap))


def _runs(mask: Mask) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int32]] | None:
    """Return start and end of the one run in each line; ``None`` if a line has several.

    Lines of triangles, bands and padded matrices have one.
    """
    counts = mask.sum(axis=-1, dtype=np.int32)
    starts = mask.argmax(axis=-1).astype(np.int32)
    ends = np.int32(mask.shape[-1]) - np.flip(mask, -1).argmax(axis=-1).astype(np.int32)
    empty = counts == 0
    if not np.array_equal(np.where(empty, 0, ends - starts), counts):
        return None
    return starts, np.where(empty, starts, ends)


def product_mask(
    lhs: Mask, rhs: Mask, lhs_shape: Sequence[int], rhs_shape: Sequence[int]
) -> Mask | None:
    """Return elements of a product that sum anything; ``None`` if finding them takes too long."""
    m, k, n = lhs_shape[-2], lhs_shape[-1], rhs_shape[-1]
    if lhs.shape[-2] == 1 and lhs.shape[-1] == 1:
        return rhs.any(axis=-2, keepdims=True) & lhs
    if rhs.shape[-2] == 1 and rhs.shape[-1] == 1:
        return lhs.any(axis=-1, keepdims=True) & rhs
    batch = max(math.prod(lhs.shape[:-2]), math.prod(rhs.shape[:-2]))
    pairs = _pairs(lhs, rhs, (m, k, n)) if batch * m * k * n <= _MAX_EXACT else None
    return None if pairs is None else pairs > 0


HIDDEN = -1e4
"""A score this low stands for minus infinity: its softmax is 0 in every dtype."""


def shown_pairs(mask: TensorUse) -> Mask | None:
    """Return the pairs of query and key that an attention mask keeps; ``None`` if unknown.

    Of a mask that is not known itself, those that the program does not hide: its elements matter.
    """
    if mask.value is None:
        return mask.mask
    value = compact(mask.value)
    return value.astype(bool) if value.dtype.kind == "b" else value > HIDDEN
