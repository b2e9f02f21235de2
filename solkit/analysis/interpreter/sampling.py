"""Choice of the programs (thread blocks) of a launch that are followed."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from solkit.analysis.interpreter.values import Array

_GOLDEN = (math.sqrt(5) - 1) / 2


def spread_out(count: int, programs: int) -> npt.NDArray[np.int64]:
    """Program numbers with no period in common with a grid's sides; all if there are few."""
    if count >= programs:
        return np.arange(programs)
    steps = (np.arange(count) * _GOLDEN + 0.5 / count) % 1.0
    chosen: npt.NDArray[np.int64] = np.unique((steps * programs).astype(np.int64))
    return chosen.clip(0, programs - 1)


def ends_of(grid: tuple[int, int, int]) -> npt.NDArray[np.int64]:
    """Return the last program along each axis, and along several, and the first."""
    sides = [(0, size - 1) for size in grid]
    numbers = {x + grid[0] * (y + grid[1] * z) for x, y, z in itertools.product(*sides)}
    return np.array(sorted(numbers))


def representative(count: int, programs: int, executions: Iterable[Array]) -> npt.NDArray[np.int64]:
    """Choose some of the programs; and for each access that none of them makes, one that does.

    Args:
        count: how many to begin with.
        programs: how many there are.
        executions: how often each program makes each access.
    """
    chosen = set(spread_out(count, programs).tolist())
    for of_access in executions:
        if of_access.any() and not of_access[list(chosen)].any():
            chosen.add(int(of_access.argmax()))
    return np.array(sorted(chosen))
