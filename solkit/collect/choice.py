"""Which configurations of a kernel to try next."""

from __future__ import annotations

import itertools
import math
import random
import statistics
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from solkit.core import Value
from solkit.datasets.record import canonical

__all__ = [
    "DEFAULT",
    "ENOUGH_NEAR",
    "LATIN_HYPERCUBE",
    "NEAR",
    "NEAR_BEST",
    "RANDOM",
    "REPEAT",
    "Chooser",
    "Params",
    "is_sparse",
    "lacks_draws",
]

Params = Mapping[str, Value]
Chosen = tuple[Params, str]
_Place = tuple[int, ...]
_Typed = tuple[type, Value]

DEFAULT, LATIN_HYPERCUBE, RANDOM = "default", "latin_hypercube", "random"
NEAR_BEST, REPEAT = "near_best", "repeat"

NEAR, ENOUGH_NEAR = 1.1, 8
"""A configuration is good within this factor of its problem's best; so many are to be known."""

_REACH = 0.6  # how far a time tells of others: of 0.15 to 1 the best on recorded spaces
_MOST_LOG = 1.0  # of a time over the best: how bad the bad ones are tells nothing of the good ones
_POINTS = 12  # of one Latin hypercube
_DRAWN = 6  # single ones between two hypercubes


class Chooser:
    """The configurations of one kernel at one shape, in the order in which they are to be tried.

    What `spread` gives depends on the seed alone, so that it is the same on every GPU; what `near`
    gives depends on the times.

    Args:
        valid: every valid configuration, all of the same parameters; one that is there twice
            counts once.
        default: the kernel file's own.
        seed: what is drawn depends on it.
    """

    def __init__(self, valid: Sequence[Params], default: Params, seed: str) -> None:
        self._params = {canonical(params): params for params in valid}
        places = _places(list(self._params.values()))
        self._name = dict(zip(places, self._params, strict=True))
        self._sizes = [1 + max(column) for column in zip(*places)]
        self._number = {name: number for number, name in enumerate(self._params)}
        steps = np.maximum(np.array(self._sizes, float) - 1, 1)
        spots = np.array(places, float).reshape(len(places), len(steps))
        self._spots = spots / np.sqrt(steps)
        self._order = self._spread(canonical(default), random.Random(seed))
        self._left = set(self._params)
        self._times_ms: dict[str, float] = {}

    def __len__(self) -> int:
        """How many are left to try."""
        return len(self._left)

    @property
    def best_ms(self) -> float | None:
        """The shortest time so far; ``None`` where none was right."""
        return min(self._times_ms.values(), default=None)

    def note(self, params: Params, time_ms: float | None) -> None:
        """Take note of one that was tried, and of its time where it was right."""
        name = canonical(params)
        self._left.discard(name)
        if time_ms is not None and name in self._params:
            self._times_ms[name] = min(time_ms, self._times_ms.get(name, time_ms))

    def spread(self, count: int) -> list[Chosen]:
        """Some from all over the space, and how each was come by."""
        fresh = ((name, how) for name, how in self._order if name in self._left)
        return [self._take(name, how) for name, how in itertools.islice(fresh, count)]

    def near(self, count: int) -> list[Chosen]:
        """Some that are likely to be fast, going by the times of those like them; fastest first.

        The logarithms of the times are smoothed over the space by kernel regression (E. A. Nadaraya
        and G. S. Watson, 1964): each weighs exp(-d / reach), where d is the sum, over parameters,
        of the steps between its values divided by the root of how many steps there are.
        """
        left = [number for name, number in self._number.items() if name in self._left]
        if not left or not self._times_ms:
            return []
        known = [self._number[name] for name in self._times_ms]
        log_times = np.log(list(self._times_ms.values()))
        over_best = np.minimum(log_times - log_times.min(), _MOST_LOG)
        far = self._far(left, known)
        weights = np.exp(-far / _REACH)
        expected = (weights @ over_best) / weights.sum(axis=1)
        order = np.lexsort((far[:, over_best.argmin()], expected.round(9)))
        names = list(self._params)
        return [self._take(names[left[place]], NEAR_BEST) for place in order[:count]]

    def _far(self, some: Sequence[int], others: Sequence[int]) -> np.ndarray[Any, Any]:
        """How far each of some is from each of others."""
        far = np.zeros((len(some), len(others)))
        for column in self._spots.T:
            far += abs(column[some][:, None] - column[others])
        return far

    def _take(self, name: str, how: str) -> Chosen:
        self._left.discard(name)
        return self._params[name], how

    def _spread(self, default: str, chance: random.Random) -> Iterator[tuple[str, str]]:
        """All of them once: the default, then hypercubes and single draws in turns."""
        if default in self._params:
            yield default, DEFAULT
        rest = [name for name in self._params if name != default]
        chance.shuffle(rest)
        left = dict.fromkeys(rest)
        while left:
            for place in self._hypercube(chance):
                name = self._name.get(place, "")
                if name in left:
                    del left[name]
                    yield name, LATIN_HYPERCUBE
            for name in itertools.islice(list(left), _DRAWN):
                del left[name]
                yield name, RANDOM

    def _hypercube(self, chance: random.Random) -> Iterator[_Place]:
        """Points at which every value of every parameter is met about equally often.

        One that is no valid configuration is replaced by none: what is valid is no box.
        """
        count = max(_POINTS, *self._sizes)
        columns = []
        for size in self._sizes:
            column = [point * size // count for point in range(count)]
            chance.shuffle(column)
            columns.append(column)
        yield from zip(*columns, strict=True)


def is_sparse(times_ms: Sequence[float]) -> bool:
    """Whether few good configurations of a problem are known, and most are not good.

    Args:
        times_ms: of the configurations that were right.
    """
    if not times_ms:
        return True
    good_ms = NEAR * min(times_ms)
    few = sum(time_ms <= good_ms for time_ms in times_ms) < ENOUGH_NEAR
    return few and statistics.median(times_ms) > good_ms


def lacks_draws(times_ms: Sequence[float], drawn_ms: Sequence[float]) -> bool:
    """Whether the search alone found good configurations of a problem, and most are not good.

    What is learned from such would take the search's word for which configurations can be good.

    Args:
        times_ms: of the configurations that were right.
        drawn_ms: of those among them that were not found by the search.
    """
    if not times_ms:
        return False
    good_ms = NEAR * min(times_ms)
    return min(drawn_ms, default=math.inf) > good_ms and statistics.median(times_ms) > good_ms


def _places(valid: Sequence[Params]) -> list[_Place]:
    """Each configuration's value of each parameter as its place among that parameter's values."""
    levels: dict[str, dict[_Typed, int]] = {}
    for key in valid[0] if valid else ():
        values = dict.fromkeys(_typed(params[key]) for params in valid)
        ordered = sorted(values, key=lambda typed: _rank(typed[1]))
        levels[key] = {typed: place for place, typed in enumerate(ordered)}
    return [tuple(levels[key][_typed(params[key])] for key in levels) for params in valid]


def _typed(value: Value) -> _Typed:
    """What tells 1 from 1.0 and from True."""
    return type(value), value


def _rank(value: Value) -> tuple[bool, float, str]:
    """Numbers by their size, before words by their spelling."""
    return (False, float(value), "") if isinstance(value, (int, float)) else (True, 0.0, str(value))
