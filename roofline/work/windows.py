"""Windows that slide over an axis: which positions meet, for convolutions and pools.

A convolution's output position o meets input position o * stride - padding + tap * dilation; a
transposed convolution is the same relation read backwards. So one side is *narrow* (the output of
a convolution or pool, the input of a transposed one) and the other one *wide*.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from solkit.roofline.work.program import TensorUse, TracedOp

Line = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Window:
    """A window's geometry along one axis, in elements."""

    size: int
    stride: int
    padding: int
    dilation: int = 1


@dataclass(frozen=True)
class Met:
    """Positions and taps of an axis that meet.

    Attributes:
        by_tap: the positions that each tap meets.
        narrow, wide: positions that take part, of those that were given.
        taps: taps that take part.
    """

    by_tap: npt.NDArray[np.int64]
    narrow: Line
    wide: Line
    taps: Line

    @property
    def pairs(self) -> int:
        """Combinations of a position and a tap."""
        return int(self.by_tap.sum())


def meet(narrow: Line, wide: Line, window: Window) -> Met:
    """Let two sides of an axis meet.

    Args:
        narrow: the positions that matter on one side.
        wide: and on the other.
        window: the taps between them.
    """
    if narrow.all() and wide.all():
        return _all_met(narrow.size, wide.size, window)
    by_tap = np.zeros(window.size, dtype=np.int64)
    met = np.zeros_like(narrow), np.zeros_like(wide), np.zeros(window.size, dtype=bool)
    positions = np.flatnonzero(narrow)
    for tap in range(window.size):
        reached = positions * window.stride - window.padding + tap * window.dilation
        inside = (reached >= 0) & (reached < wide.size)
        inside[inside] = wide[reached[inside]]
        by_tap[tap] = inside.sum()
        if by_tap[tap]:
            met[0][positions[inside]] = True
            met[1][reached[inside]] = True
            met[2][tap] = True
    return Met(by_tap, *met)


def _all_met(narrow: int, wide: int, window: Window) -> Met:
    """Return `Met` where every position matters, without a walk of the pairs: up to 2^33.

    A tap meets the narrow positions of a range, and of the wide ones every `stride`-th of a range.
    """
    starts = np.arange(window.size) * window.dilation - window.padding
    first = np.clip(-(starts // window.stride), 0, narrow)  # the ceiling of -start / stride
    last = np.clip((wide - 1 - starts) // window.stride + 1, first, narrow)  # behind the last one
    taps = last > first
    reached = starts + first * window.stride
    columns, lines = np.divmod(reached, window.stride)
    steps = wide // window.stride + 2
    grid = np.zeros((window.stride, steps + 1), dtype=np.int64)
    np.add.at(grid, (lines[taps], columns[taps]), 1)
    np.add.at(grid, (lines[taps], (columns + last - first)[taps]), -1)
    touched = (grid.cumsum(axis=1) > 0).T.reshape(-1)[:wide]
    edges = np.zeros(narrow + 1, dtype=np.int64)
    np.add.at(edges, first[taps], 1)
    np.add.at(edges, last[taps], -1)
    return Met((last - first).astype(np.int64), edges.cumsum()[:-1] > 0, touched, taps)


def windows_of(op: TracedOp) -> list[Window]:
    """Return the windows of a convolution or a pool, axis by axis."""
    arguments = op.arguments
    weight = arguments.get("weight")
    sizes = list(weight.shape[2:]) if weight is not None else None
    if sizes is None:
        sizes = per_axis(arguments["kernel_size"], op.operator.axes)
    axes = len(sizes)
    stride = per_axis(arguments.get("stride") or sizes, axes)
    padding, dilation = (
        per_axis(arguments.get(name, default), axes)
        for name, default in (("padding", 0), ("dilation", 1))
    )
    return [Window(*one) for one in zip(sizes, stride, padding, dilation)]


def per_axis(value: Any, axes: int) -> list[int]:
    """Return an argument that is one number for all axes, or one each, as one each."""
    values = [value] if isinstance(value, int) else list(value)
    return values * axes if len(values) == 1 else values


def axis_line(use: TensorUse, axis: int) -> Line:
    """Return the positions along an axis where any element of a tensor matters."""
    if use.mask is None or use.mask.shape[axis] == 1:
        return np.ones(use.shape[axis], dtype=bool)
    return np.asarray(use.mask.any(axis=tuple(d for d in range(use.mask.ndim) if d != axis)))


def sources_of(op: TracedOp) -> list[npt.NDArray[np.floating[Any]]]:
    """Place an interpolation's results between the input's elements, axis by axis.

    They are torch's source positions: with corners aligned o (n - 1) / (m - 1), else
    (o + 1/2) / scale - 1/2. They may lie outside.
    """
    sizes, outputs = op.inputs[0].shape[2:], op.result.shape[2:]
    if op.arguments.get("align_corners"):
        steps = [(n - 1) / max(m - 1, 1) for n, m in zip(sizes, outputs)]
        return [np.arange(m, dtype=np.float64) * step for m, step in zip(outputs, steps)]
    scales = _scales(op, len(sizes))
    steps = [1 / scale if scale else n / m for n, m, scale in zip(sizes, outputs, scales)]
    return [(np.arange(m, dtype=np.float64) + 0.5) * step - 0.5 for m, step in zip(outputs, steps)]


def _scales(op: TracedOp, axes: int) -> list[float | None]:
    """Return the scale factors that were given, an axis each."""
    arguments = op.arguments
    if "scale_factors" in arguments:
        return list(arguments["scale_factors"] or [None] * axes)
    names = [["scales"], ["scales_h", "scales_w"], ["scales_d", "scales_h", "scales_w"]][axes - 1]
    return [arguments.get(name) for name in names]
