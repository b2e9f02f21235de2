"""Choose which configurations of a kernel to try next."""

from __future__ import annotations

import itertools
import math
import random
import statistics
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from solkit.core import Params, Space, canonical

Chosen = tuple[Params, str]
_Place = tuple[int, ...]

DEFAULT, LATIN_HYPERCUBE, RANDOM = "default", "latin_hypercube", "random"
NEAR_BEST, REPEAT = "near_best", "repeat"

NEAR, ENOUGH_NEAR = 1.1, 8
"""A configuration is good if it is within this factor of its problem's best; that many good ones
suffice."""

_REACH = 0.6  # how far a time informs about others: the best of 0.15 to 1 on recorded spaces
_MOST_LOG = 1.0  # of a time over the best: how slow bad ones are says nothing about good ones
_MOST_WEIGHED = 20_000  # each is compared with each timed one
_POINTS = 12  # of one Latin hypercube
_DRAWN = 6  # single ones between two hypercubes


class ConfigSampler:
    """Chooses which configurations of one kernel at one shape to try next.

    `spread` depends only on the seed, so it is the same on every GPU; `near` depends on the times.
    From a space of more than `_MOST_WEIGHED` points, that many are drawn, and no others are tried.
    """

    def __init__(self, space: Space, default: Params, seed: str) -> None:
        points = space.walk() if space.size <= _MOST_WEIGHED else space.shuffled(seed)
        weighed = Space.of_points(itertools.islice(points, _MOST_WEIGHED))
        self._params = {canonical(params): params for params in weighed.walk()}
        places = [weighed.places(params) for params in self._params.values()]
        self._name = dict(zip(places, self._params, strict=True))
        self._sizes = [1 + max(column) for column in zip(*places)]
        self._number = {name: number for number, name in enumerate(self._params)}
        steps = np.maximum(np.array(self._sizes, float) - 1, 1)
        spots = np.array(places, float).reshape(len(places), len(steps))
        self._spots = spots / np.sqrt(steps)
        self._order = self._spread_configs(canonical(default), random.Random(seed))
        self._left = set(self._params)
        self._times_ms: dict[str, float] = {}

    def __len__(self) -> int:
        """Return the number of configurations left to try."""
        return len(self._left)

    @property
    def best_ms(self) -> float | None:
        """The shortest time so far; ``None`` if nothing was correct."""
        return min(self._times_ms.values(), default=None)

    def note(self, params: Params, time_ms: float | None) -> None:
        """Record that a configuration was tried, and its time if it was correct."""
        name = canonical(params)
        self._left.discard(name)
        if time_ms is not None and name in self._params:
            self._times_ms[name] = min(time_ms, self._times_ms.get(name, time_ms))

    def spread(self, count: int) -> list[Chosen]:
        """Return configurations from the whole space, each with how it was chosen."""
        fresh = ((name, how) for name, how in self._order if name in self._left)
        return [self._take_chosen(name, how) for name, how in itertools.islice(fresh, count)]

    def near(self, count: int) -> list[Chosen]:
        """Return configurations that are probably fast, by similar ones; the fastest first.

        Kernel regression smooths the logarithms of the times over the space (E. A. Nadaraya and
        G. S. Watson, 1964). The weight of each is exp(-d / reach). The distance d sums over the
        parameters the steps between two values, divided by the root of the number of steps.
        """
        untried = [number for name, number in self._number.items() if name in self._left]
        if not untried or not self._times_ms:
            return []
        measured = [self._number[name] for name in self._times_ms]
        log_times = np.log(list(self._times_ms.values()))
        over_best = np.minimum(log_times - log_times.min(), _MOST_LOG)
        far = self._distances(untried, measured)
        weights = np.exp(-far / _REACH)
        expected = (weights @ over_best) / weights.sum(axis=1)
        order = np.lexsort((far[:, over_best.argmin()], expected.round(9)))
        names = list(self._params)
        return [self._take_chosen(names[untried[place]], NEAR_BEST) for place in order[:count]]

    def _distances(self, some: Sequence[int], others: Sequence[int]) -> np.ndarray[Any, Any]:
        """Return the distance of each of `some` from each of `others`."""
        far = np.zeros((len(some), len(others)))
        for column in self._spots.T:
            far += abs(column[some][:, None] - column[others])
        return far

    def _take_chosen(self, name: str, how: str) -> Chosen:
        self._left.discard(name)
        return self._params[name], how

    def _spread_configs(self, default: str, chance: random.Random) -> Iterator[tuple[str, str]]:
        """Yield each configuration once: the default, then hypercubes and single draws in turns."""
        if default in self._params:
            yield default, DEFAULT
        rest = [name for name in self._params if name != default]
        chance.shuffle(rest)
        untried = dict.fromkeys(rest)
        while untried:
            for place in self._latin_hypercube(chance):
                name = self._name.get(place, "")
                if name in untried:
                    del untried[name]
                    yield name, LATIN_HYPERCUBE
            for name in itertools.islice(list(untried), _DRAWN):
                del untried[name]
                yield name, RANDOM

    def _latin_hypercube(self, chance: random.Random) -> Iterator[_Place]:
        """Yield points that have every value of every parameter about equally often.

        Some are not valid, since the valid points need not form a box.
        """
        count = max(_POINTS, *self._sizes)
        columns = []
        for size in self._sizes:
            column = [point * size // count for point in range(count)]
            chance.shuffle(column)
            columns.append(column)
        yield from zip(*columns, strict=True)


def is_sparsely_good(times_ms: Sequence[float]) -> bool:
    """Tell whether few good configurations of a problem are known, and most are not good.

    `times_ms` are those of its correct configurations.
    """
    if not times_ms:
        return True
    good_ms = NEAR * min(times_ms)
    few = sum(time_ms <= good_ms for time_ms in times_ms) < ENOUGH_NEAR
    return few and statistics.median(times_ms) > good_ms


def lacks_draws(times_ms: Sequence[float], drawn_ms: Sequence[float]) -> bool:
    """Tell whether only the search found good configurations of a problem, and most are not good.

    A surrogate that learned only from these would repeat the search's bias. `times_ms` are those of
    its correct configurations, `drawn_ms` of those that the search did not find.
    """
    if not times_ms:
        return False
    good_ms = NEAR * min(times_ms)
    return min(drawn_ms, default=math.inf) > good_ms and statistics.median(times_ms) > good_ms
