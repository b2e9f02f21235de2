"""Pooling: what sliding windows take when they share partial results.

Each operation joins two values. Every window of more than one element is a value of its own, so
there is at least one operation for each; and elements that some window covers are joined into as
few values as there are groups of overlapping windows, so there are at least as many operations as
covered elements less groups. For disjoint windows this is exact; for overlapping ones van Herk's
and Gil and Werman's algorithms ("Computing 2-D min, median, and max filters", 1993) come within a
small factor.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from solkit.roofline.work.costs._base import Cost, rule, scalar
from solkit.roofline.work.program import TensorUse, TracedOp
from solkit.roofline.work.windows import per_axis

_Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class _Axis:
    """The windows along one axis, as far as they lie inside.

    Attributes:
        windows: distinct ones.
        single: those of one element.
        covered: elements that some window covers.
        groups: sets of windows that hang together by overlapping.
    """

    windows: int
    single: int
    covered: int
    groups: int


def _axis(first: _Ints, last: _Ints) -> _Axis:
    """Return windows from `first` to before `last`, in order."""
    new = np.append(True, (np.diff(first) != 0) | (np.diff(last) != 0))
    first, last = first[new], last[new]
    reached = np.append(first[:1], np.maximum.accumulate(last)[:-1])
    return _Axis(
        windows=first.size,
        single=int((last - first == 1).sum()),
        covered=int(np.maximum(last - np.maximum(first, reached), 0).sum()),
        groups=1 + int((first[1:] >= reached[1:]).sum()),
    )


def _sliding(
    size: int, windows: int, kernel: int, stride: int, padding: int, dilation: int
) -> _Axis:
    start = np.arange(windows, dtype=np.int64) * stride - padding
    if dilation > 1 and kernel > 1:  # the taps of a window have gaps: count them one by one
        taps = start[:, None] + np.arange(kernel, dtype=np.int64) * dilation
        inside = (taps >= 0) & (taps < size)
        single = int((inside.sum(axis=1) == 1).sum())
        return _Axis(windows, single, np.unique(taps[inside]).size, windows)
    return _axis(np.maximum(start, 0), np.minimum(start + kernel, size))


def _adaptive(size: int, windows: int) -> _Axis:
    """Window i reaches from floor(i size / windows) to before ceil((i + 1) size / windows)."""
    position = np.arange(windows, dtype=np.int64)
    return _axis(position * size // windows, -(-(position + 1) * size // windows))


def _joins(axes: Sequence[_Axis], planes: int) -> int:
    """Return the least operations over all planes."""
    elements = math.prod(a.covered for a in axes) - math.prod(a.groups for a in axes)
    return planes * max(_many(axes), elements)


def _many(axes: Sequence[_Axis]) -> int:
    """Count windows of more than one element."""
    return math.prod(a.windows for a in axes) - math.prod(a.single for a in axes)


def _cost(op: TracedOp, x: TensorUse, axes: Sequence[_Axis], averaged: bool) -> Cost:
    planes = math.prod(op.result.shape[: -len(axes)])
    if x.distinct < planes * math.prod(a.covered for a in axes):
        return _partly(x, axes)
    scaled = planes * _many(axes) if averaged else 0
    return scalar(x, _joins(axes, planes) + scaled)


def _partly(x: TensorUse, axes: Sequence[_Axis]) -> Cost:
    """Only some of the windows are wanted: w of them cover c elements, and max(w, c - w) >= c/2."""
    some_single = all(a.single for a in axes)
    return scalar(x, 0 if some_single else x.distinct // 2)


@rule("pool", "mean pool")
def _pool(op: TracedOp) -> Cost:
    """Count windows of `kernel_size`, every `stride`; padding takes no part."""
    arguments, x = op.arguments, op.inputs[0]
    axes = op.operator.axes
    kernel = per_axis(arguments["kernel_size"], axes)
    stride = per_axis(arguments.get("stride") or kernel, axes)
    padding, dilation = (
        per_axis(arguments.get(name, default), axes) for name, default in _PARAMETERS.items()
    )
    sizes, windows = x.shape[-axes:], op.result.shape[-axes:]
    slid = list(map(_sliding, sizes, windows, kernel, stride, padding, dilation))
    return _cost(op, x, slid, op.operator.cost == "mean pool")


_PARAMETERS = {"padding": 0, "dilation": 1}


@rule("adaptive pool", "adaptive mean pool")
def _adaptive_pool(op: TracedOp) -> Cost:
    """Count windows that divide the input as evenly as they can."""
    axes, x = op.operator.axes, op.inputs[0]
    slid = list(map(_adaptive, x.shape[-axes:], op.result.shape[-axes:]))
    return _cost(op, x, slid, op.operator.cost == "adaptive mean pool")


@rule("fractional pool")
def _fractional_pool(op: TracedOp) -> Cost:
    """Count windows at random places, which may overlap: at least one operation each."""
    axes = op.operator.axes
    single = math.prod(per_axis(op.arguments["kernel_size"], axes)) == 1
    return scalar(op.result, 0 if single else op.result.distinct)


@rule("mean pool backward")
def _average_backward(op: TracedOp) -> Cost:
    """Scale each element of the incoming gradient, then spread it over its window."""
    return scalar(op.result, op.inputs[0].distinct)
