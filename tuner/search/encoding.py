"""Points of a space as numbers, so that near points are alike.

A point is first a row of places: for each parameter the index of its value. Places become features,
in *scales*: groups of columns that share one length scale.

* Numbers: their logarithm if all are positive, else the number, from 0 to 1.
* Integers: how often 2 divides them, from 0 to 1. Warps, banks and vector loads make 96 more like
  160 than like 97.
* Equality, for strings and for up to 32 numbers: numbers may be codes, and one of them may have
  something that its neighbours lack.
* What has two values: 0 and 1.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from solkit.core import Space, Value
from solkit.core.space import Params

Array = NDArray[Any]
Places = NDArray[np.int64]

NAMED = 32
"""Numbers that are also told apart by equality, at most: of more, each is seen too rarely."""

_MOST_CODES = 16  # likewise, of numbers that may be codes: a size is never 0


class Encoding:
    """Turns points into places and features.

    Args:
        space: the space.
        named: up to how many numbers are also told apart by equality.

    Attributes:
        parameters: how many the space has.
        varying: how many of them have several values.
        scales: by column of the features, the number of its length scale.
    """

    def __init__(self, space: Space, named: int = NAMED) -> None:
        self._space = space
        self.parameters = len(space.values)
        listed = list(space.values.values())
        self._varying = [at for at, values in enumerate(listed) if len(values) > 1]
        self.varying = len(self._varying)
        self._tables: dict[int, Array] = {}
        scales: list[int] = []
        for at in self._varying:
            blocks = _feature_columns(listed[at], named)
            for block in blocks:
                scales += [max(scales, default=-1) + 1] * block.shape[1]
            self._tables[at] = np.hstack(blocks)
        self.scales = np.array(scales, np.int64)
        keys = np.random.default_rng(0)
        self._weights = keys.integers(1, 2**63, len(listed), np.int64).astype(
            np.uint64
        ) | np.uint64(1)

    def places(self, points: Sequence[Params]) -> Places:
        """Return the places of points, (points, parameters).

        Raises:
            ParamsError: a value is not one of the space's.
        """
        rows = [self._space.places(point) for point in points]
        return np.array(rows, np.int64).reshape(len(points), self.parameters)

    def point(self, places: Places) -> Params:
        """Return the point with these places."""
        return {name: v[int(at)] for (name, v), at in zip(self._space.values.items(), places)}

    def features(self, places: Places) -> Array:
        """Return features of places (points, parameters): (points, columns)."""
        blocks = [self._tables[at][places[:, at]] for at in self._varying]
        return np.hstack(blocks) if blocks else np.zeros((len(places), 0))

    def keys(self, places: Places) -> NDArray[np.uint64]:
        """Return a number for each point: other places have the same once in 2⁶⁴."""
        with np.errstate(over="ignore"):
            mixed = (places.astype(np.uint64) + np.uint64(1)) * self._weights
            mixed ^= mixed >> np.uint64(29)
            return (mixed * self._weights[::-1]).sum(axis=1, dtype=np.uint64)


def _feature_columns(values: Sequence[Value], named: int) -> list[Array]:
    """Return features of a parameter's values: blocks (values, columns), one length scale each."""
    if len(values) == 2:
        return [np.array([[0.0], [1.0]])]
    if any(isinstance(value, (str, bool, type(None))) for value in values):
        return [_equality_columns(len(values))]
    numbers = np.array(values, float)
    positive = bool((numbers > 0).all())
    blocks = [_unit_interval(np.log2(numbers) if positive else numbers)]
    if positive and all(isinstance(value, int) for value in values):
        twos = np.log2(np.gcd(np.array(values, np.int64), 1 << 62))
        if not (np.exp2(twos) == numbers).all() and np.ptp(twos) > 0:
            blocks.append(_unit_interval(twos))
    if len(values) <= (named if positive else max(named, _MOST_CODES)):
        blocks.append(_equality_columns(len(values)))
    return blocks


def _unit_interval(numbers: Array) -> Array:
    low, high = float(numbers.min()), float(numbers.max())
    return ((numbers - low) / (high - low))[:, None]


def _equality_columns(count: int) -> Array:
    """Return features with one column a value: different values are 1 apart."""
    return np.eye(count) * math.sqrt(0.5)
