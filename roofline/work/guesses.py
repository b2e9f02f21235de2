"""Guesses of what unknown indices name: all things as often as the others."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from solkit.roofline.work.masks import as_axis
from solkit.roofline.work.program import TensorUse


def spread(index: TensorUse, dim: int, count: int) -> npt.NDArray[np.int64]:
    """Return unknown indices below `count`: different along `dim`, each as often as the others."""
    lines = [n for d, n in enumerate(index.shape) if d != dim]
    start = np.arange(math.prod(lines), dtype=np.int64).reshape(lines) * index.shape[dim]
    along = as_axis(np.arange(index.shape[dim]), dim, len(index.shape))
    return np.asarray((np.expand_dims(start, dim) + along) % count)


def choices_of_lines(index: TensorUse, count: int) -> npt.NDArray[np.int64]:
    """Return which of `count` things each line chooses, each as often as the others.

    Lines choose few things in turn, and runs of lines one of many: so pairs of choices, as of an
    expert and of a place in its batch, differ. Different indices choose different things.
    """
    lines = np.arange(index.numel, dtype=np.int64).reshape(index.shape)
    if count * count > index.numel:
        lines = lines * count // index.numel
    return np.asarray((lines + index.storage) % count)
