"""Distinct elements that a set of strided regions of one storage covers."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from solkit.roofline.work.masks import block_size, everything, in_blocks, pattern_of
from solkit.roofline.work.program import TensorUse

_MAX_RUNS = 1 << 22  # with more runs only the largest region counts: a lower bound
_BITS_A_RUN = 16  # marking fewer elements is faster than sorting a run
_MAX_BITS = 1 << 28

_Region = tuple[tuple[int, ...], tuple[int, ...], int, int]
_Runs = tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]


def covered_bytes(uses: Sequence[TensorUse]) -> int:
    """Count bytes of one storage that at least one of `uses` touches.

    Exact where the regions fall into at most 4 Mi runs, or masks span at most 256 Mi blocks;
    else the largest one of them.
    """
    uses = [use for use in uses if use.numel]
    unique = list(dict.fromkeys(_joined(_canonical(use)) for use in uses if use.mask is None))
    masked = [use for use in uses if use.mask is not None]
    if not unique and not masked:
        return 0
    if len(unique) == 1 and not masked and (single := _disjoint_size(*unique[0])) is not None:
        return single * unique[0][3]
    dense = [r for r in unique if len(r[0]) <= 1 and r[1] in ((1,), ())]
    everyone = [*unique, *map(_canonical, masked)]
    for region in dense:  # the common case: one use spans all the others
        if all(_within(other, region) for other in everyone):
            return math.prod(region[0]) * region[3]
    runs = sum(
        math.prod(shape if stride[-1:] != (1,) else shape[:-1]) for shape, stride, *_ in unique
    )
    extent = max(region[2] + _reach(region) for region in everyone)
    sizes = {item for *_, item in everyone}
    if masked or (extent < _BITS_A_RUN * runs and len(sizes) == 1):
        return _masked_bytes(uses, everyone)
    if runs > _MAX_RUNS:
        return max((_disjoint_size(*r) or max(r[0], default=1)) * r[3] for r in unique)
    return _union([_runs(*region) for region in unique])


def _masked_bytes(uses: Sequence[TensorUse], regions: Sequence[_Region]) -> int:
    """Count bytes of regions, some of them masked."""
    item = uses[0].dtype.itemsize
    if len(uses) == 1 and _disjoint_size(*regions[0]) is not None:
        return uses[0].bytes
    masks = [everything(len(use.shape)) if use.mask is None else use.mask for use in uses]
    size = math.gcd(*(block_size(use, mask) for use, mask in zip(uses, masks)))
    blocks = [block for use in uses if (block := in_blocks(use, size)) is not None]
    if len(blocks) < len(uses):
        size, blocks = 1, list(uses)
    extent = -(-max(region[2] + _reach(region) + 1 for region in regions) // size)
    if extent > _MAX_BITS or any(use.dtype.itemsize != item for use in uses):
        return max(use.bytes for use in uses)
    bits = np.zeros(extent, dtype=bool)
    for use, mask in zip(blocks, masks):
        view = np.lib.stride_tricks.as_strided(bits[use.offset :], use.shape, use.stride)
        if _disjoint_size(*_canonical(use)) is None or 0 in use.stride:
            view[np.broadcast_to(mask, use.shape)] = True  # an element may have many places
        else:
            np.logical_or(view, mask, out=view)
    return int(np.count_nonzero(bits)) * size * item


def _canonical(use: TensorUse) -> _Region:
    """(shape, stride, offset, item size): no repeated dimensions, outermost first, merged."""
    dims = [(step, n) for n, step in zip(use.shape, use.stride) if n != 1 and step != 0]
    dims.sort(key=lambda d: (-d[0], -d[1]))
    merged: list[tuple[int, int]] = []
    for step, n in dims:
        if merged and merged[-1][0] == step * n:
            merged[-1] = (step, n * merged[-1][1])
        else:
            merged.append((step, n))
    shape, stride = tuple(n for _, n in merged), tuple(step for step, _ in merged)
    return shape, stride, use.offset, use.dtype.itemsize


def _joined(region: _Region) -> _Region:
    """Return the same elements, windows that overlap joined to one dimension."""
    dims: list[tuple[int, int]] = []
    for n, step in zip(*region[:2]):
        while dims and dims[-1][1] % step == 0 and dims[-1][1] <= step * n:
            outer, outer_step = dims.pop()
            n += (outer - 1) * outer_step // step
        dims.append((n, step))
    shape, stride = tuple(n for n, _ in dims), tuple(step for _, step in dims)
    return shape, stride, *region[2:]


def _disjoint_size(
    shape: tuple[int, ...], stride: tuple[int, ...], offset: int, item: int
) -> int | None:
    """Return elements of a region; ``None`` if its dimensions may overlap."""
    del offset, item
    reach = 0
    for n, step in zip(reversed(shape), reversed(stride)):
        if step <= reach:
            return None
        reach += step * (n - 1)
    return math.prod(shape)


def _within(inner: _Region, outer: _Region) -> bool:
    first, last = (inner[2] * inner[3], inner[2] + _reach(inner))
    low, high = (outer[2] * outer[3], outer[2] + _reach(outer))
    return low <= first and (last + 1) * inner[3] <= (high + 1) * outer[3]


def _reach(region: _Region) -> int:
    return sum(step * (n - 1) for n, step in zip(region[0], region[1]))


def _runs(shape: tuple[int, ...], stride: tuple[int, ...], offset: int, item: int) -> _Runs:
    """Return a region as byte intervals [start, end)."""
    inner = shape[-1] if shape and stride[-1] == 1 else 1
    outer = list(zip(shape, stride))[: -1 if inner > 1 else None]
    starts = np.array([offset], dtype=np.int64)
    for n, step in outer:
        starts = (starts[:, None] + np.arange(n, dtype=np.int64) * step).ravel()
    return starts * item, (starts + inner) * item


def covers(outer: TensorUse, inner: TensorUse) -> bool:
    """Tell whether a region surely contains another one of the same storage."""
    if outer.mask is not None:
        return False
    region = _canonical(outer)
    dense = len(region[0]) <= 1 and region[1] in ((1,), ())
    return outer == inner or (dense and _within(_canonical(inner), region))


def overlap(one: TensorUse, other: TensorUse) -> bool:
    """Tell whether two regions of a storage may share an element."""
    if not (one.numel and other.numel):
        return True  # empty regions gain nothing from a closer look
    if covers(one, other) or covers(other, one):
        return True
    meet = _masks_meet(one, other) if one.mask is not None or other.mask is not None else None
    if meet is not None:
        return meet
    apart = [covered_bytes([use]) for use in (one, other)]
    return sum(apart) > covered_bytes([one, other])


def _masks_meet(one: TensorUse, other: TensorUse) -> bool | None:
    """Tell whether two masked regions share an element; ``None`` if the masks do not show it."""
    if one.dtype.itemsize != other.dtype.itemsize:
        return None
    extent = 1 + max(region[2] + _reach(region) for region in map(_canonical, (one, other)))
    masks = [everything(len(u.shape)) if u.mask is None else u.mask for u in (one, other)]
    pattern = pattern_of(one, masks[0], extent)
    seen = None if pattern is None else pattern.under(other)
    return None if seen is None else bool((seen & masks[1]).any())


def _union(runs: Sequence[_Runs]) -> int:
    """Return total length of the union of intervals."""
    starts = np.concatenate([r[0] for r in runs])
    ends = np.concatenate([r[1] for r in runs])
    order = np.argsort(starts, kind="stable")
    starts, ends = starts[order], ends[order]
    reached = np.maximum.accumulate(ends)
    already = np.concatenate([starts[:1], reached[:-1]])
    return int(np.maximum(ends - np.maximum(starts, already), 0).sum())
