"""Interpolation: upsampling and sampling on a grid.

A result that falls on an input element is a copy of it, as torch's own weights have it; each other
one takes at least the multiply-add (linear) or the four taps (cubic) of one axis. What a first
pass along another axis takes is left out.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from solkit.roofline.work.costs._base import Cost, rule, scalar
from solkit.roofline.work.program import TensorUse, TracedOp
from solkit.roofline.work.windows import sources_of

_LINEAR_TAPS, _CUBIC_TAPS = 2, 7  # a multiply-add; a product and three multiply-adds


@rule("linear")
def _upsample_linear(op: TracedOp) -> Cost:
    """Return a multiply-add for each result between two elements."""
    return scalar(op.result, _LINEAR_TAPS * _between(op, op.inputs[0].shape, op.result))


@rule("cubic")
def _upsample_cubic(op: TracedOp) -> Cost:
    """Four taps for each result between two elements."""
    return scalar(op.result, _CUBIC_TAPS * _between(op, op.inputs[0].shape, op.result, cubic=True))


@rule("antialiased")
def _upsample_antialiased(op: TracedOp) -> Cost:
    """Return a multiply-add per result where a size changes: wider filters are no cheaper."""
    changed = op.inputs[0].shape[2:] != op.result.shape[2:]
    return scalar(op.result, _LINEAR_TAPS * op.result.distinct if changed else 0)


def _between(op: TracedOp, shape: tuple[int, ...], output: TensorUse, cubic: bool = False) -> int:
    """Count results that fall on no input element."""
    axes = zip(sources_of(op), shape[2:])
    on = math.prod(_on_elements(source, size, cubic) for source, size in axes)
    copies = on * math.prod(output.shape[:2])
    return max(output.distinct - copies, 0)


def _on_elements(source: npt.NDArray[np.floating[Any]], size: int, cubic: bool) -> int:
    """Count results along one axis that are copies: from source positions whole or past an edge."""
    whole = np.abs(source - np.round(source)) < 1e-6  # too many copies leave a lower bound
    outside = (source <= 0) | (source >= size - 1)
    return int((whole if cubic else whole | outside).sum())


_TAPS = {(2, 0): 7, (2, 1): 0, (2, 2): 31, (3, 0): 15, (3, 1): 0}
"""Operations of 4, 1, 16, 8 and 1 weighted taps, by axes and interpolation mode."""


@rule("grid sample")
def _grid_sample(op: TracedOp) -> Cost:
    """Weighted taps per element; per place, a multiply-add a coordinate to scale it."""
    grid: TensorUse = op.arguments["grid"]
    taps = _TAPS[_kind(op)]
    return scalar(op.result, taps * op.result.distinct + 2 * grid.distinct)


def _kind(op: TracedOp) -> tuple[int, Any]:
    grid: TensorUse = op.arguments["grid"]
    return grid.shape[-1], op.arguments.get("interpolation_mode", 0)


@rule("grid sample backward")
def _grid_sample_backward(op: TracedOp) -> Cost:
    """Return the taps again for each of the gradients asked for."""
    gradients = sum(map(bool, op.arguments["output_mask"]))
    return scalar(op.result, gradients * _TAPS[_kind(op)] * op.inputs[0].distinct)


@rule("affine grid")
def _affine_grid(op: TracedOp) -> Cost:
    """Return a multiply-add per coordinate: the rest is shared along rows and columns."""
    return scalar(op.result, 2 * op.result.distinct)
