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

__all__ = ["HIDDEN", "count", "is_gram", "multiply_adds", "product_mask", "shown_pairs"]

_MAX_EXACT = 1 << 31  # multiply-adds of the product of masks: a tenth of a second


def count(mask: Mask, shape: Sequence[int]) -> int:
    """Elements of a mask over `shape`."""
    repeats = math.prod(n for n, size in zip(shape, mask.shape) if size == 1)
    return int(mask.sum()) * repeats


def multiply_adds(left: TensorUse, right: TensorUse, out: TensorUse) -> int:
    """Multiply-adds of [*, M, K] x [*, K, N]; equal rows, columns or batch elements count once."""
    left, right, out = _as_matrices(left, right, out)
    batch = tuple(
        1 if a == 0 and b == 0 else n
        for n, a, b in zip(out.shape[:-2], left.stride[:-2], right.stride[:-2])
    )
    m, k = left.shape[-2:]
    n = right.shape[-1]
    sizes = {"m": m, "k": k, "n": n}
    given = {
        axes: mask[tuple(slice(0, 1) if b == 1 else slice(None) for b in batch)]
        for axes, mask in (("mk", left.mask), ("kn", right.mask), ("mn", out.mask))
        if mask is not None
    }
    if not given and is_gram(left, right):
        return math.prod(batch) * m * (m + 1) // 2 * k
    if not given:
        rows, columns = 1 if left.stride[-2] == 0 else m, 1 if right.stride[-1] == 0 else n
        return math.prod(batch) * rows * k * columns
    if len(given) == 1:
        ((axes, mask),) = given.items()
        third = next(size for axis, size in sizes.items() if axis not in axes)
        return count(mask, (*batch, *(sizes[a] for a in axes))) * third
    if len(given) == 3 and math.prod(batch) * m * k * n <= _MAX_EXACT:
        pairs = _pairs(given["mk"], given["kn"], k)
        return int(_total(pairs * given["mn"], (*batch, m, n)))
    return min(_two(a, given[a], b, given[b], batch, sizes) for a, b in combinations(given, 2))


def is_gram(left: TensorUse, right: TensorUse) -> bool:
    """Whether a matrix meets its own transpose: one triangle of the result is the other one."""
    if len(left.shape) < 2 or len(left.shape) != len(right.shape):
        return False
    shape, stride = ((*of[:-2], of[-1], of[-2]) for of in (right.shape, right.stride))
    return left == replace(right, shape=shape, stride=stride)


def _as_matrices(
    left: TensorUse, right: TensorUse, out: TensorUse
) -> tuple[TensorUse, TensorUse, TensorUse]:
    """Vectors as matrices of one row or one column."""
    if len(left.shape) == 1:
        left, out = _with_axis(left, 0), _with_axis(out, 0)
    if len(right.shape) == 1:
        right, out = _with_axis(right, 1), _with_axis(out, len(out.shape))
    return left, right, out


def _with_axis(use: TensorUse, axis: int) -> TensorUse:
    shape, stride = list(use.shape), list(use.stride)
    shape.insert(axis, 1)
    stride.insert(axis, 1)
    mask = None if use.mask is None else np.expand_dims(use.mask, axis)
    return replace(use, shape=tuple(shape), stride=tuple(stride), mask=mask)


def _two(a: str, x: Mask, b: str, y: Mask, batch: Sequence[int], sizes: dict[str, int]) -> int:
    """The sum with two masks: along the index that they share, line by line."""
    (shared,) = set(a) & set(b)
    lines = _line_counts(a, x, shared, sizes) * _line_counts(b, y, shared, sizes)
    return int(_total(lines, (*batch, sizes[shared])))


def _line_counts(
    axes: str, mask: Mask, shared: str, sizes: dict[str, int]
) -> npt.NDArray[np.int64]:
    own = next(axis for axis in axes if axis != shared)
    position = axes.index(own) - 2
    repeats = sizes[own] if mask.shape[position] == 1 else 1
    return np.asarray(mask.sum(axis=position, dtype=np.int64) * repeats)


def _total(values: npt.NDArray[np.int64], shape: Sequence[int]) -> int:
    """The sum of an array that broadcasts to `shape`."""
    repeats = math.prod(n for n, size in zip(shape, values.shape) if size == 1)
    return int(values.sum()) * repeats


def _pairs(left: Mask, right: Mask, k: int) -> npt.NDArray[np.int64]:
    """How many pairs of factors each element of the product sums; broadcasts to its shape."""
    if left.shape[-1] == right.shape[-2] == 1:
        return k * np.asarray(left & right, dtype=np.int64)
    left = np.broadcast_to(left, (*left.shape[:-1], k))
    right = np.broadcast_to(right, (*right.shape[:-2], k, right.shape[-1]))
    # in float32, whole numbers are exact up to 2^24, and BLAS computes it
    return np.rint(left.astype(np.float32) @ right.astype(np.float32)).astype(np.int64)


def product_mask(
    left: Mask, right: Mask, left_shape: Sequence[int], right_shape: Sequence[int]
) -> Mask | None:
    """Elements of a product that sum anything; ``None`` if finding them takes too long."""
    m, k, n = left_shape[-2], left_shape[-1], right_shape[-1]
    if left.shape[-2] == 1 and left.shape[-1] == 1:
        return right.any(axis=-2, keepdims=True) & left
    if right.shape[-2] == 1 and right.shape[-1] == 1:
        return left.any(axis=-1, keepdims=True) & right
    batch = max(math.prod(left.shape[:-2]), math.prod(right.shape[:-2]))
    if batch * m * k * n > _MAX_EXACT:
        return None
    return _pairs(left, right, k) > 0


HIDDEN = -1e4
"""A score this low stands for minus infinity: its softmax is 0 in every dtype."""


def shown_pairs(mask: TensorUse) -> Mask | None:
    """The pairs of query and key that an attention mask leaves; ``None`` if it is unknown."""
    if mask.value is None:
        return None
    value = compact(mask.value)
    return value.astype(bool) if value.dtype.kind == "b" else value > HIDDEN
